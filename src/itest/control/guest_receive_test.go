// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"context"
	"encoding/json"

	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/itest/topo"
	"fastpath/src/itest/topo/traffic"
	"fastpath/src/testkit"
)

// shower sends packets from host1, in turn by each of its sockets, until ctx ends.
type shower struct {
	flows int
	rate  int // packets a second
	size  int // payload
	to    netip.AddrPort
}

// start opens the sockets. The server answers each flow's first packet, which
// makes conntrack take it for established, and reads no more: what its socket
// has no room for is dropped there.
func (s shower) start(ctx context.Context, t *testing.T, from, server *testkit.Netns) {
	t.Helper()
	var answering *net.UDPConn
	conns := make([]*net.UDPConn, s.flows)
	err := server.Inside(func() (err error) {
		answering, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(s.to))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { answering.Close() })
	buf := make([]byte, s.size)
	for i := range conns {
		err := from.Inside(func() (err error) {
			conns[i], err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(s.to))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		conns[i].Write(buf)
		answering.SetReadDeadline(time.Now().Add(patience))
		_, peer, err := answering.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatal(err)
		}
		answering.WriteToUDPAddrPort(buf[:1], peer)
	}
	go s.send(ctx, conns, buf)
}

func (s shower) send(ctx context.Context, conns []*net.UDPConn, buf []byte) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	start, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			for _, c := range conns {
				c.Close()
			}
			return
		case <-tick.C:
		}
		for due := int(time.Since(start).Seconds() * float64(s.rate)); sent < due; sent++ {
			conns[sent%len(conns)].Write(buf)
		}
	}
}

// receiving is what status says about the ports' receive modes.
type receiving struct {
	hook           string
	modes, reasons map[string]string
}

func (r *router) receiving(t *testing.T) (out receiving) {
	t.Helper()
	text, err := r.command("status", "--json").Output()
	if err != nil {
		t.Fatalf("status --json: %v", err)
	}
	var doc struct {
		Report struct {
			Hook  string `json:"hook"`
			Ports []struct {
				Name    string `json:"name"`
				Receive string `json:"receive"`
				Reason  string `json:"receive_reason"`
			} `json:"ports"`
		} `json:"report"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatalf("status --json: %v in %s", err, text)
	}
	out = receiving{hook: doc.Report.Hook, modes: map[string]string{}, reasons: map[string]string{}}
	for _, p := range doc.Report.Ports {
		out.modes[p.Name], out.reasons[p.Name] = p.Receive, p.Reason
	}
	return out
}

// receives waits until lan1's mode has come about, with its reason, and checks
// it against ethtool. Asking takes samples too, so that three windows are half a minute.
func (r *router) receives(t *testing.T, mode, reason string, gro, list string) {
	t.Helper()
	var last receiving
	limit := time.Now().Add(5 * time.Minute)
	for {
		last = r.receiving(t)
		if last.modes["lan1"] == mode && strings.Contains(last.reasons["lan1"], reason) {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("lan1 is %q (%s), want %q (… %s …); hook %s; the log:\n%s", last.modes["lan1"], last.reasons["lan1"], mode, reason, last.hook, r.log.String())
		}
		time.Sleep(5 * time.Second)
	}
	t.Logf("lan1 %s: %s", mode, last.reasons["lan1"])
	for feature, want := range map[string]string{"generic-receive-offload": gro, "rx-gro-list": list} {
		if got := r.Router.Run(t, "ethtool -k lan1 | grep '^"+feature+":'"); !strings.HasPrefix(got, feature+": "+want) {
			t.Errorf("%s: %q, want %s", mode, got, want)
		}
	}
	if out, err := r.command("status").Output(); err != nil || !strings.Contains(string(out), "receive  "+mode+" (") {
		t.Errorf("status has no line for %s: %v\n%s", mode, err, out)
	}
}

func (r *router) installs() int { return strings.Count(r.log.String(), "install table inet fastpath") }

// Many forwarded flows are for bulks, mostly local traffic is for fraglist GRO;
// a mix that moves is followed once, and stop gives the ports back.
func TestReceiveFollowsTheMix(t *testing.T) {
	if !early() {
		t.Log("this kernel has no early_ingress: nothing is switched on by itself, see receive-stock.txt of src/plan")
		return
	}
	r := build(t, topo.Plain)
	before := r.settings(t)
	r.start(t)
	r.want(t, lowest(topo.Plain)...)
	forwarded := shower{flows: 12, rate: 1200, size: 600, to: netip.MustParseAddrPort(topo.Serverv4 + ":6000")}
	local := shower{flows: 2, rate: 1200, size: 600, to: netip.MustParseAddrPort(topo.RouterLANv4 + ":6001")}

	ctx, stop := context.WithCancel(t.Context())
	forwarded.start(ctx, t, r.Host1, r.Provider)
	r.receives(t, "bulk", "many flows at a time", "off", "off")
	stop()
	first := r.installs()

	ctx, stop = context.WithCancel(t.Context())
	local.start(ctx, t, r.Host1, r.Router)
	r.receives(t, "fraglist", "for the router itself", "on", "on")
	if hook := r.receiving(t).hook; hook != "ingress" {
		t.Errorf("hook %s with a port that is better off with GRO", hook)
	}
	time.Sleep(30 * time.Second) // nothing more comes of it
	stop()
	if n := r.installs() - first; n != 1 {
		t.Errorf("the table was installed %d times for one move of the mix:\n%s", n, r.log.String())
	}
	r.settled(t)

	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	forwarded.start(ctx, t, r.Host1, r.Provider)
	r.receives(t, "bulk", "many flows at a time", "off", "off")
	if n := r.installs() - first; n != 2 {
		t.Errorf("the table was installed %d times for two moves of the mix:\n%s", n, r.log.String())
	}
	stop()
	r.stop(t, syscall.SIGTERM)
	if after := r.settings(t); after != before {
		t.Errorf("after the end:\n%s\nbefore:\n%s", after, before)
	}
}

// The owner's fraglist, and the port as it was after kill -9 and cleanup.
func TestReceiveGivenBack(t *testing.T) {
	r := build(t, topo.Plain)
	before := r.settings(t)
	r.rewrite(t, "fastpath", "option enabled '1'", "option enabled '1'\n\nconfig port\n\toption device 'lan1'\n\toption receive 'fraglist'")
	r.start(t)
	r.receives(t, "fraglist", "option receive 'fraglist'", "on", "on")
	r.stop(t, syscall.SIGKILL)
	if out, err := r.command("cleanup").CombinedOutput(); err != nil {
		t.Fatalf("cleanup: %v: %s", err, out)
	}
	if after := r.settings(t); after != before {
		t.Errorf("after kill -9 and cleanup:\n%s\nbefore:\n%s", after, before)
	}
}

// Another hook costs the flows a few packets by the slow path, and nobody a packet.
func TestReceiveHookChanges(t *testing.T) {
	if !early() {
		t.Log("this kernel has one hook only")
		return
	}
	r := build(t, topo.Plain)
	r.start(t)
	r.want(t, lowest(topo.Plain)...)
	const rate = 1000
	stream, err := traffic.Stream{Client: r.Host1, Server: r.Provider, Addr: netip.MustParseAddr(topo.Serverv4),
		Port: 7000, Rate: rate, Size: 200}.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tcp := make(chan error, 1)
	go func() {
		_, err := r.transfer(topo.Serverv4, false, true, 8_000_000).Run(t.Context())
		tcp <- err
	}()
	time.Sleep(time.Second)
	stream.Begin()
	start := time.Now()
	for i, hook := range []string{"ingress", "auto", "ingress", "auto"} {
		from, want := "option enabled '1'", map[string]string{"ingress": "ingress", "auto": "early_ingress"}[hook]
		if i > 0 {
			from = "option enabled '1'\n\toption hook '" + map[string]string{"ingress": "auto", "auto": "ingress"}[hook] + "'"
		}
		r.rewrite(t, "fastpath", from, "option enabled '1'\n\toption hook '"+hook+"'")
		r.reload(t)
		r.eventually(t, "hook "+want, func() bool { return r.receiving(t).hook == want })
		time.Sleep(time.Second)
	}
	span := time.Since(start)
	up, down, err := stream.End()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-tcp; err != nil {
		t.Errorf("TCP through the changes: %v", err)
	}
	due := int64(span.Seconds() * rate)
	t.Logf("4 changes of the hook in %v: up %+v, down %+v, %d sent each way", span, up, down, due)
	for way, seen := range map[string]traffic.Seen{"up": up, "down": down} {
		if seen.Gap > 100*time.Millisecond || seen.Received < due-rate/50 {
			t.Errorf("%s: %d of about %d packets, gap %v", way, seen.Received, due, seen.Gap)
		}
	}
	r.settled(t)

}
