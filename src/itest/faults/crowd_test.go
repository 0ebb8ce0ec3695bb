// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Ports of the crowd's servers; below them is the port of all other flows.
const crowdServer = 5001

// assured is how long a UDP connection must go on until conntrack believes in it
// (nf_conntrack_proto_udp.c: two seconds). No engine takes it before.
const assured = 2200 * time.Millisecond

// crowd makes n connections of host A and the server, which answers on all of
// them, now and when that makes them assured. Each crowd has server ports of its own.
func (l *lab) crowd(id uint16, n int) {
	l.Helper()
	const hostPorts, least = 40000, 2000
	f := upFrame(hostA, 0)
	f.Payload = []byte("one of many")
	for round := range 2 {
		time.Sleep(time.Duration(round) * assured)
		for i := range n {
			f.From = netip.AddrPortFrom(hostA, uint16(least+i%hostPorts))
			f.To = netip.AddrPortFrom(server.Addr(), crowdServer+id*10+uint16(i/hostPorts))
			l.a.send(f.Bytes())
			if i%100 == 0 {
				time.Sleep(time.Millisecond) // others want the CPU too
			}
		}
		eventually(l, "the server has answered the crowd", func() bool { return l.quiet() })
	}
}

// quiet: the server has got nothing for the crowd within a moment.
func (l *lab) quiet() bool {
	before := l.answered.Load()
	time.Sleep(50 * time.Millisecond)
	return before == l.answered.Load()
}

// answer is the server of crowds: a tap that sends each packet back.
func (l *lab) answer(w *wire, _ time.Time, b []byte) {
	if len(b) < 42 || b[12] != 8 || b[13] != 0 || b[23] != 17 || binary.BigEndian.Uint16(b[36:]) < crowdServer {
		return
	}
	r := append([]byte(nil), b...)
	for _, s := range []struct{ a, b, size int }{{0, 6, 6}, {26, 30, 4}, {34, 36, 2}} {
		copy(r[s.a:s.a+s.size], b[s.b:])
		copy(r[s.b:s.b+s.size], b[s.a:]) // swapped: no checksum changes
	}
	w.send(r)
	l.answered.Add(1)
}

// overrun makes conntrack tell more than a stopped daemon's sockets can hold:
// among it that connections have ended. Then all is as if nothing had been lost.
func (l *lab) overrun() {
	l.g.tap(l.answer)
	l.crowd(0, 500)
	if l.daemon != nil {
		eventually(l, "the engine has the first crowd", func() bool { return len(l.flows()) > 400 })
	}
	l.signal(syscall.SIGSTOP)
	time.Sleep(flap) // the kernel has taken over: what the crowd costs comes after that
	l.crowd(1, 12000)
	l.router.Run(l, "conntrack -D -p udp --orig-port-dst 5001 >/dev/null")
	if l.daemon != nil && l.dropped() == 0 {
		l.Error("the kernel has dropped no event: this test shows nothing")
	}
	l.signal(syscall.SIGCONT)
	if l.daemon == nil {
		return
	}
	eventually(l, "the engine has what conntrack has, and nothing else", func() bool {
		marked := l.conntrack("--mark 0x40000000/0x40000000")
		return marked > 10000 && l.conntrack("--orig-port-dst 5001") == 0 && len(l.flows()) == marked
	})
}

// conntrack counts entries.
func (l *lab) conntrack(filter string) int {
	l.Helper()
	return strings.Count(l.router.Run(l, "conntrack -L -p udp "+filter+" 2>/dev/null"), "\n")
}

// dropped is how many messages the kernel couldn't give to the daemon's sockets.
func (l *lab) dropped() (sum int) {
	l.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/netlink", l.daemon.cmd.Process.Pid))
	if err != nil {
		l.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 10 && fields[1] == "12" { // NETLINK_NETFILTER
			n, _ := strconv.Atoi(fields[8])
			sum += n
		}
	}
	return sum
}

// When an engine has no room left, the slow path carries the rest, and a counter
// says so. When there is room again, it is used.
func TestMapFull(t *testing.T) {
	const connections = 72000 // the most that there is room for is 64k
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			l := newLab(t, engine)
			l.g.tap(l.answer)
			l.run()
			begin := time.Now()
			l.crowd(0, connections)
			t.Logf("%d connections in conntrack after %v", l.conntrack(""), time.Since(begin).Round(time.Millisecond))
			eventually(t, "the counter of connections without room counts", func() bool { return l.document().Traffic.EngineFull > 0 })
			traffic := l.document().Traffic
			t.Logf("%v after the first packet: %d in the engine, %d without room", time.Since(begin).Round(time.Millisecond), traffic.EngineFlows, traffic.EngineFull)

			late := l.newFlow("late", 1002, 64)
			late.start(t)
			time.Sleep(after)
			if n := late.up.received(); n < 500 {
				t.Errorf("a flow without room: %d packets arrived in %v", n, after)
			}
			l.settled("the first flow, which has room")
			l.router.Run(t, "conntrack -D -p udp --orig-port-dst 5001 >/dev/null")
			eventually(t, "the late flow is in the engine", func() bool { return len(l.flows("port", "1002")) == 1 })
			late.finish(t)
			l.finish()
		})
	}
}
