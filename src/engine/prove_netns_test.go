// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/itest/engine"
	"fastpath/src/packet"
	"fastpath/src/state"
)

// older plays a kernel before 6.3, which tells no xdp-features.
func (l *lab) older() {
	l.features = func(int) (uint64, bool, error) { return 0, false, nil }
}

// forwarded is a flow from r0 to r1, put where flowsync puts them, and a frame of it.
func (l *lab) forwarded(o state.Observed) []byte {
	l.Helper()
	p0, p1 := link(o, "p0").MAC, link(o, "p1").MAC
	r0, r1 := l.port("r0"), l.port("r1")
	t := packet.Tuple{Proto: packet.UDP, Src: netip.MustParseAddrPort("10.0.1.2:1000"), Dst: netip.MustParseAddrPort("192.0.2.2:2000")}
	key, err := packet.NewKey(packet.Wire{Port: r0.slot, Peer: p0, Own: r0.link.MAC}, t)
	l.must(err)
	action, err := packet.NewAction(key, packet.Wire{Port: r1.slot, Peer: p1, Own: r1.link.MAC}, t, 1500)
	l.must(err)
	l.must(l.base.sink.Put(r0.sync(), key, action))
	l.base.set.Tick()
	return engine.Frame{Dst: r0.link.MAC, Src: p0, From: t.Src, To: t.Dst, Proto: packet.UDP, TTL: 64, Payload: []byte("hello")}.Bytes()
}

// send sends a frame so many times by a device.
func (l *lab) send(index int, frame []byte, times int) {
	l.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	l.must(err)
	defer unix.Close(fd)
	for range times {
		l.must(unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index}))
	}
}

// due waits until so many packets have been sent to an output.
func (l *lab) due(slot uint16, n uint64) {
	l.Helper()
	for end := time.Now().Add(patience); l.base.sink.due()[slot] < n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("%d of %d packets were forwarded", l.base.sink.due()[slot], n)
		}
	}
}

// Where the kernel can't tell, the first packets prove an output, or stop it.
func TestFirstPacketsProve(t *testing.T) {
	for name, tt := range map[string]struct{ gro, reason string }{
		"transmits":      {"on", ""},
		"drops them all": {"off", "its driver counts 0 as sent"},
	} {
		t.Run(name, func(t *testing.T) {
			l, want := newLab(t), forced(state.EngineXDP)
			l.older()
			l.run("ethtool -K p1 gro " + tt.gro)
			for _, p := range []string{"r0", "r1", "p0", "p1"} { // or the kernel sends packets of its own
				l.run("sysctl -qw net.ipv6.conf." + p + ".disable_ipv6=1")
			}
			l.start(want)
			o := l.look()
			frame, r1 := l.forwarded(o), l.port("r1")
			for sent := range 80 { // and look each time as if a second had passed
				if sent%5 == 0 && r1.watched {
					l.due(r1.slot, uint64(sent))
					l.beat()
				}
				l.send(link(o, "p0").Index, frame, 1)
			}
			r := l.refused["r1"]
			if r1.watched || r1.proved != (tt.reason == "") || r1.retired != (tt.reason != "") || (r != nil) != (tt.reason != "") {
				t.Fatalf("%+v, refused: %v", r1, r)
			}
			if r != nil && !strings.Contains(r.Reason, tt.reason) {
				t.Errorf("reason %q, want %q", r.Reason, tt.reason)
			}
			if !l.port("r0").watched || !l.base.sink.watching() {
				t.Error("r0, to which nothing was sent, isn't watched any more")
			}
		})
	}
}

// judge on the counters that drivers have.
func TestJudge(t *testing.T) {
	type at struct{ due, sent uint64 }
	for name, tt := range map[string]struct {
		seen            []at
		watched, proved bool
	}{
		"nothing was due":          {[]at{{0, 0}, {0, 3}}, true, false},
		"counted at once":          {[]at{{10, 10}, {64, 64}}, false, true},
		"counted a bulk later":     {[]at{{16, 0}, {32, 16}, {80, 64}}, false, true},
		"one packet, long silence": {[]at{{1, 0}, {1, 0}, {1, 0}}, true, false},
		"nothing leaves":           {[]at{{1, 0}, {2, 0}}, false, false},
		"much, and nothing leaves": {[]at{{1000, 0}}, false, false},
		"only the kernel's leave":  {[]at{{20, 2}, {40, 3}, {70, 4}}, false, false},
	} {
		p := &port{watched: true}
		for _, s := range tt.seen {
			if p.watched {
				p.judge(s.due, s.sent)
			}
		}
		if p.watched != tt.watched || p.proved != tt.proved {
			t.Errorf("%s: watched %v, proved %v", name, p.watched, p.proved)
		}
	}
}

// The flow table's Refs and the program's entries come and go together.
func TestSink(t *testing.T) {
	for _, kind := range kinds {
		l := newLab(t)
		l.start(forced(kind))
		o := l.look()
		l.forwarded(o)
		l.forwarded(o) // once more is the same flow
		var keys []packet.Key
		l.must(l.base.sink.Counters(func(k packet.Key, _, _ uint64) { keys = append(keys, k) }))
		if len(keys) != 1 || l.base.sink.table.Len() != map[string]int{state.EngineXDP: 0, state.EngineAFXDP: 1}[kind] {
			t.Fatalf("%s: %d flows in the program, %d in the table", kind, len(keys), l.base.sink.table.Len())
		}
		for range 2 {
			l.must(l.base.sink.Delete(keys[0]))
		}
		keys = nil
		l.must(l.base.sink.Counters(func(k packet.Key, _, _ uint64) { keys = append(keys, k) }))
		if len(keys) != 0 || l.base.sink.table.Len() != 0 {
			t.Errorf("%s: %d flows are left in the program, %d in the table", kind, len(keys), l.base.sink.table.Len())
		}
		l.must(l.Close())
	}
}
