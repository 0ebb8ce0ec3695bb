// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"testing"
	"time"

	"fastpath/src/itest/engine"
	"fastpath/src/packet"
	"fastpath/src/state"
)

// What listed sources send is dropped on a port with an engine and counted there; what
// others send passes, and is forwarded where there is a flow.
func TestDropList(t *testing.T) {
	v4, v6 := netip.MustParseAddrPort("10.0.1.66:1000"), netip.MustParseAddrPort("[2001:db8::66]:1000")
	sets := []state.DropSet{
		{Name: "v4-1", Family: "ipv4", V4: [][2][4]byte{{v4.Addr().As4(), v4.Addr().As4()}}},
		{Name: "v6-1", Family: "ipv6", V6: [][2][16]byte{{v6.Addr().As16(), v6.Addr().As16()}}},
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l, want := newLab(t), forced(kind)
			o := l.look()
			l.must(l.SetDrop(sets))
			for _, port := range []string{"r0", "r1"} { // no look meanwhile: see below
				l.must(l.Start(port, want))
			}
			p0 := link(o, "p0")
			known := l.forwarded(o)
			listed := func(times int) {
				for _, from := range []netip.AddrPort{v4, v6} {
					f := engine.Frame{Dst: link(o, "r0").MAC, Src: p0.MAC, From: from, To: from, Proto: packet.UDP, TTL: 64}
					l.send(p0.Index, f.Bytes(), times)
				}
			}
			listed(3)
			l.send(p0.Index, known, 5)
			c := l.counted(func(c state.EngineCounters) bool { return c.Packets == 5 })
			if c.Engines["r0"].Dropped["drop-list"] != 6 || c.Dropped["r0"] != 6 || c.Engines["r0"].Passed["no-flow"] != 0 {
				t.Errorf("6 listed packets: %+v", c)
			}
			l.must(l.SetDrop(nil))
			listed(1)
			l.counted(func(c state.EngineCounters) bool { return c.Passed["no-flow"] == 2 })
			l.must(l.SetDrop(sets))
			listed(1)
			l.counted(func(c state.EngineCounters) bool { return c.Dropped["drop-list"] == 8 })
			l.look() // somebody has taken the kernel's sets away, which are what was asked for
			listed(1)
			l.counted(func(c state.EngineCounters) bool { return c.Passed["no-flow"] == 4 })
		})
	}
}

// counted waits until r0's engine has counted that.
func (l *lab) counted(that func(state.EngineCounters) bool) state.Counters {
	l.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c := state.Counters{Dropped: map[string]uint64{}}
		l.must(l.Counters(&c))
		if that(c.Engines["r0"]) {
			return c
		}
		if time.Now().After(end) {
			l.Fatalf("%+v", c)
		}
	}
}
