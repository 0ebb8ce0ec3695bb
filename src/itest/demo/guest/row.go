// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"text/tabwriter"

	"fastpath/src/itest/topo"
	gen "fastpath/src/itest/topo/traffic"
	"fastpath/src/testkit"
)

// rowBytes is the payload of a row after its first packets; at least
// wantShare of a row has to arrive, and less than maxSlow of it by the slow path.
const (
	rowBytes  = 51_000_000
	wantShare = 50. / 51
	maxSlow   = 0.01
)

// transfers are the rows: TCP and UDP, up and down, over IPv4 and IPv6. The
// LAN's two hosts take turns.
func transfers(n *topo.Net) (all []gen.Transfer) {
	for i, addr := range []string{topo.Serverv4, topo.Serverv6} {
		host := []*testkit.Netns{n.Host1, n.Host2}[i]
		for _, udp := range []bool{false, true} {
			for _, up := range []bool{true, false} {
				all = append(all, gen.Transfer{
					Client: host, Server: n.Provider, Addr: netip.MustParseAddr(addr), Port: uint16(5000 + len(all)),
					UDP: udp, Up: up, Bytes: rowBytes,
				})
			}
		}
	}
	return all
}

// row is one transfer and what was measured of it.
type row struct {
	transfer gen.Transfer
	untapped bool   // also watch the ingress ports with tcpdump, which must see none of the fast path
	halfway  func() // called once while it runs; nil: nothing to show

	result gen.Result
	slow   count // slow path, measured part only
	seen   int64 // packets in tcpdump, likewise
}

func (r *row) run(ctx context.Context, router *testkit.Netns) error {
	t := r.transfer
	var before count
	var seenBefore int64
	var caps *captures
	if r.untapped {
		var err error
		if caps, err = startCaptures(router, netip.AddrPortFrom(t.Addr, t.Port)); err != nil {
			return err
		}
		defer caps.stop()
	}
	t.Steady = func() (err error) {
		if caps != nil {
			if seenBefore, err = caps.both(); err != nil {
				return err
			}
		}
		before, err = readCounter(router)
		return err
	}
	ticks := 0
	t.Progress = func(received int64) {
		if ticks++; ticks%3 == 1 {
			fmt.Printf("   %-13s %3d of %d MB\n", t, received/1_000_000, t.Bytes/1_000_000)
		}
		if r.halfway != nil && received > t.Bytes/3 {
			r.halfway()
			r.halfway = nil
		}
	}
	var err error
	if r.result, err = t.Run(ctx); err != nil {
		return err
	}
	after, err := readCounter(router)
	if err != nil {
		return err
	}
	r.slow = after.minus(before)
	if caps != nil {
		seen, _ := caps.settled()
		r.seen = seen - seenBefore
	}
	fmt.Printf("   %-13s done: %.0f Mbit/s, slow path %d bytes\n", t, r.mbits(), r.slow.bytes)
	return nil
}

func (r *row) mbits() float64 {
	return float64(r.result.Received) * 8 / 1e6 / r.result.Elapsed.Seconds()
}

func (r *row) slowShare() float64 { return float64(r.slow.bytes) / float64(r.result.Received) }

func (r *row) arrived() bool {
	return float64(r.result.Received) >= wantShare*float64(r.transfer.Bytes)
}

// verdict is the reason why the row failed, or nil.
func (r *row) verdict() error {
	switch {
	case !r.arrived():
		return fmt.Errorf("%s: only %d of %d bytes arrived", r.transfer, r.result.Received, r.transfer.Bytes)
	case r.slowShare() >= maxSlow:
		return fmt.Errorf("%s: %.2f %% took the slow path, want less than %.0f %%", r.transfer, 100*r.slowShare(), 100*maxSlow)
	case r.seen > r.slow.packets:
		// tcpdump may see what the slow path carries, and nothing else.
		return fmt.Errorf("%s: tcpdump saw %d packets at the ingress ports, only %d took the slow path", r.transfer, r.seen, r.slow.packets)
	}
	return nil
}

func printTable(rows []row) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "flow\tsent MB\treceived MB\tslow packets\tslow bytes\tshare\tlongest gap ms\tMbit/s\t")
	if rows[0].untapped {
		fmt.Fprint(w, "tcpdump saw\t")
	}
	fmt.Fprint(w, "\t\n")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%d\t%d\t%.4f %%\t%.0f\t%.0f\t", r.transfer, float64(r.result.Sent)/1e6,
			float64(r.result.Received)/1e6, r.slow.packets, r.slow.bytes, 100*r.slowShare(),
			float64(r.result.Gap.Microseconds())/1e3, r.mbits())
		if r.untapped {
			fmt.Fprintf(w, "%d\t", r.seen)
		}
		verdict := "ok"
		if r.verdict() != nil {
			verdict = "FAILED"
		}
		fmt.Fprintf(w, "%s\t\n", verdict)
	}
	w.Flush()
	fmt.Printf("\n   Measured after the first %d packets of each flow. Sent and received: payload. Slow: what the first rule\n"+
		"   at hook forward counted, both ways. GSO, TSO and GRO are off at the hosts and the server. Mbit/s and\n"+
		"   gaps are those of one emulated CPU, an instruction a nanosecond, for router, hosts and server.\n", gen.WarmPackets)
	if rows[0].untapped {
		fmt.Printf("   tcpdump saw: packets at the router's ingress ports; no engine and no early_ingress shows it any, so\n" +
			"   these are the slow path's.\n")
	}
}
