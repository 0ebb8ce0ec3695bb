// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

const (
	rounds    = 5
	roundTime = 400 * time.Millisecond
)

// A TCP receiver on the router itself keeps its rate when an engine is on its
// port. To reach: 0.95; a busy machine may go down to 0.8 in the median of the
// rounds. What it is compared with is the same port with an XDP program that does
// nothing: a veth copies each packet of a local sender for any program, which no
// network card has to. How much that is of the rate without a program is logged.
func TestLocalReceiver(t *testing.T) {
	const target, allowed = 0.95, 0.8
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			l := newLab(t, engine)
			l.kernelHosts()
			rates := map[string][]float64{}
			ways := []string{"none", "empty", engine}
			for round := range rounds {
				for i := range ways { // whoever comes first may find another machine
					way := ways[(round+i)%len(ways)]
					rates[way] = append(rates[way], l.rateWith(way))
				}
			}
			kept, driver := ratio(rates[engine], rates["empty"]), ratio(rates["empty"], rates["none"])
			t.Logf("local TCP receiver: %.0f Mbit/s with the engine, %.0f with an empty program: ratio %.3f (median of %d rounds; to reach %.2f); %.0f without a program, of which the veth's driver leaves %.3f",
				median(rates[engine]), median(rates["empty"]), kept, rounds, target, median(rates["none"]), driver)
			if kept < allowed {
				t.Errorf("the receiver keeps %.3f of its rate: %v Mbit/s", kept, rates)
			}
		})
	}
}

// rateWith is the rate with no program, an empty one, or the lab's engine on the port.
func (l *lab) rateWith(way string) float64 {
	l.Helper()
	switch way {
	case "none":
		return l.localRate()
	case "empty":
		defer l.emptyProgram("p1").Close()
		return l.localRate()
	}
	l.startDaemon()
	defer l.stopDaemon()
	return l.localRate()
}

// emptyProgram attaches an XDP program that lets everything pass.
func (l *lab) emptyProgram(dev string) (attached link.Link) {
	l.Helper()
	l.router.Do(l, func() {
		const pass = 2 // XDP_PASS
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, pass), asm.Return()}})
		if err != nil {
			l.Fatal(err)
		}
		defer prog.Close() // the link keeps it
		at, err := net.InterfaceByName(dev)
		if err != nil {
			l.Fatal(err)
		}
		attached, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: at.Index, Flags: link.XDPDriverMode})
		if err != nil {
			l.Fatal(err)
		}
	})
	return attached
}

// localRate is what a receiver on the router gets from a LAN host, in Mbit/s.
func (l *lab) localRate() float64 {
	l.Helper()
	c := dial(l, l.a.ns, l.router, "10.0.1.1:6000")
	go func() {
		buf := make([]byte, 128<<10)
		for {
			if _, err := c.client.Write(buf); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 256<<10)
	read := func(d time.Duration) (n int, took time.Duration) {
		begin := time.Now()
		for took < d {
			c.server.SetReadDeadline(time.Now().Add(patience))
			k, err := io.ReadAtLeast(c.server, buf, 1)
			if err != nil {
				l.Fatalf("local receiver: %v", err)
			}
			n, took = n+k, time.Since(begin)
		}
		return n, took
	}
	read(roundTime / 4) // it grows its window
	n, took := read(roundTime)
	c.server.Close()
	c.client.Close()
	return float64(n) * 8 / 1e6 / took.Seconds()
}

// ratio is the median of a's rounds over b's.
func ratio(a, b []float64) float64 {
	var r []float64
	for i := range a {
		r = append(r, a[i]/b[i])
	}
	return median(r)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
