// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"fastpath/src/packet"

	"golang.org/x/sys/unix"
)

// span is a range of source addresses.
type span struct{ first, last netip.Addr }

// refListed looks through the list for a frame's source.
func refListed(frame []byte, in packet.Port, list []span) bool {
	a, _ := refParse(frame, in, tunnels)
	return a.source.IsValid() && slices.ContainsFunc(list, func(s span) bool {
		return s.first.BitLen() == a.source.BitLen() && !a.source.Less(s.first) && !s.last.Less(a.source)
	})
}

// setDrop makes list the Set's and, for check, the rig's.
func (r *rig) setDrop(list []span) {
	r.t.Helper()
	v4, v6 := rangesOf(list)
	must(r.t, r.set.SetDrop(v4, v6))
	r.list = list
}

// rangesOf are the families' parts of a list.
func rangesOf(list []span) (v4 [][2][4]byte, v6 [][2][16]byte) {
	for _, s := range list {
		if s.first.Is4() {
			v4 = append(v4, [2][4]byte{s.first.As4(), s.last.As4()})
		} else {
			v6 = append(v6, [2][16]byte{s.first.As16(), s.last.As16()})
		}
	}
	return v4, v6
}

// list is a list around addresses: each is a range's end, within one, or right
// beside one; and some that no frame has. n is about how many ranges there are.
func (g generator) list(n int, around []netip.Addr) []span {
	var all []span
	for range n {
		addr := around[g.IntN(len(around))]
		if g.one(3) {
			addr = g.addrPort(addr.Is6()).Addr()
		}
		s := span{addr, addr}
		for range g.IntN(4) {
			s.first = s.first.Prev()
		}
		for range g.IntN(4) {
			s.last = s.last.Next()
		}
		switch g.IntN(4) {
		case 0:
			s.first = addr.Next() // misses it
		case 1:
			s.last = addr.Prev()
		case 2: // a whole prefix, in IPv6 one that ends in either half
			p := netip.PrefixFrom(addr, 8+g.IntN(addr.BitLen()-8)).Masked()
			s = span{p.Addr(), lastOf(p)}
		}
		if s.first.IsValid() && s.last.IsValid() && !s.last.Less(s.first) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b span) int { return a.first.Compare(b.first) })
	gap := all[:0]
	for _, s := range all { // that overlap or touch the one before are left out
		if n := len(gap); n == 0 || gap[n-1].last.Less(s.first) && gap[n-1].last.Next() != s.first {
			gap = append(gap, s)
		}
	}
	return gap
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// sources are all that flows come from, tunnels' ends among them.
func sources(flows []*testFlow) (all []netip.Addr) {
	for _, f := range flows {
		all = append(all, f.from.Src.Addr())
	}
	return append(all, tunnels[0].remote, tunnels[2].remote)
}

// Frames of every encapsulation, with a flow and without, good and damaged, with
// lists of every size from none to some thousand, each exchanged for the next.
func TestDropList(t *testing.T) {
	g := newGenerator(t)
	flows, _ := g.kinds()
	strangers, _ := g.kinds()
	r := newRig(t, flows, true)
	r.enter(0)
	all := slices.Concat(flows, strangers)
	around := sources(all)
	var seen [packet.NumReasons]int
	for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 60, 5000, 33, 1, 0, 200} {
		r.setDrop(g.list(n, around))
		for range 10 {
			for _, f := range all {
				frame := g.frame(f)
				if g.one(2) {
					frame = g.mutate(f, frame)
				}
				seen[r.check(frame)]++
			}
		}
	}
	t.Logf("%v of each reason", seen)
	if seen[packet.DropList] < 500 || seen[packet.NoFlow] < 500 || seen[packet.Forward] < 500 {
		t.Error("one side was hardly tried")
	}
}

// What the parser passes up is dropped too, as soon as its source is known, also
// where a flow has it.
func TestDropListPassedUp(t *testing.T) {
	g := newGenerator(t)
	flows, names := g.kinds()
	r := newRig(t, flows, true)
	r.enter(0)
	for i, f := range flows {
		l3, v6 := l3Offset(f.in), f.from.Src.Addr().Is6()
		ways := map[packet.Reason][2]int{packet.TTL: {8, 1}, packet.OtherL4: {9, 1}, packet.Fragment: {6, 0x20}, packet.Options: {0, 0x46}}
		if v6 {
			ways = map[packet.Reason][2]int{packet.TTL: {7, 1}, packet.OtherL4: {6, 58}, packet.Fragment: {6, 44}, packet.Options: {6, 60}}
		}
		if f.in.Session != 0 && f.in.Tunnel == 0 {
			ways[packet.Length] = [2]int{-4, 0xff} // PPPoE's
		}
		for reason, way := range ways {
			frame := g.frame(f)
			frame[l3+way[0]] = byte(way[1])
			r.setDrop(nil)
			if got := r.check(slices.Clone(frame)); got != reason {
				t.Errorf("%s: %v, want %v", names[i], got, reason)
			}
			r.setDrop([]span{{f.from.Src.Addr(), f.from.Src.Addr()}})
			if got := r.check(frame); got != packet.DropList {
				t.Errorf("%s, %v: %v, want %v", names[i], reason, got, packet.DropList)
			}
		}
	}
}

// While lists of other sizes follow each other, an address that all of them have
// is always dropped, and one that none has never is.
func TestDropListExchange(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(9, 10))}
	for _, v6 := range []bool{false, true} {
		listed, free := g.flow(), g.flow()
		for _, f := range []*testFlow{listed, free} {
			f.in, f.out, f.mtu, f.engine = packet.Wire{}, packet.Wire{}, 1500, EngineXDP
			f.from = packet.Tuple{Proto: packet.UDP, Src: g.addrPort(v6), Dst: g.addrPort(v6)}
			f.to = f.from
		}
		r := newRig(t, []*testFlow{free}, true)
		r.enter(0)
		lists := [][]span{g.listWith(listed, free, 1), g.listWith(listed, free, 3000), g.listWith(listed, free, 40)}
		must(t, r.set.SetDrop(rangesOf(lists[0])))
		frames := [2][]byte{g.frame(listed), g.frame(free)}
		done := make(chan error)
		go func() { done <- exchangeLists(r.set, lists, 40) }()
		runs := 0
		for under := true; under; runs++ {
			select {
			case err := <-done:
				must(t, err)
				under = false
			default:
			}
			r.set.Tick()
			for n, want := range [...]uint32{xdpDrop, xdpRedirect} {
				if verdict, _, _ := run(t, r.set, frames[n]); verdict != want {
					t.Fatalf("IPv6 %v, run %d: verdict %d, want %d", v6, runs, verdict, want)
				}
			}
		}
		t.Logf("IPv6 %v: %d runs meanwhile", v6, runs)
	}
}

func exchangeLists(s *Set, lists [][]span, times int) error {
	for i := range times {
		if err := s.SetDrop(rangesOf(lists[i%len(lists)])); err != nil {
			return err
		}
	}
	return nil
}

// listWith is a list with the source of one flow and without that of another.
func (g generator) listWith(in, out *testFlow, n int) []span {
	is, not := in.from.Src.Addr(), out.from.Src.Addr()
	all := []span{{is, is}}
	for range n - 1 {
		addr := g.addrPort(is.Is6()).Addr()
		all = append(all, span{addr, addr})
	}
	slices.SortFunc(all, func(a, b span) int { return a.first.Compare(b.first) })
	return slices.DeleteFunc(all, func(s span) bool { return s.first == not })
}

// A list that can't be put leaves the one before in force.
func TestDropListRefused(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(11, 12))}
	f := g.flow()
	f.in = packet.Wire{}
	r := newRig(t, []*testFlow{g.flow()}, true)
	r.enter(0)
	frame := g.frame(f)
	addr := f.from.Src.Addr()
	r.setDrop([]span{{addr, addr}})
	list := []int{mapDrop4, mapDrop6}[addr.BitLen()/128]
	ours := r.set.maps[list]
	r.set.maps[list] = -1
	for _, n := range []int{0, 1, 300} {
		others := slices.Repeat([]span{{addr.Next(), addr.Next()}}, n)
		if err := r.set.SetDrop(rangesOf(others)); !errors.Is(err, unix.EBADF) {
			t.Errorf("%d ranges: %v", n, err)
		}
	}
	r.set.maps[list] = ours
	others := slices.Repeat([]span{{addr.Next(), addr.Next()}}, MaxRanges+1)
	if err := r.set.SetDrop(rangesOf(others)); err == nil {
		t.Errorf("%d ranges are put", len(others))
	}
	if got := r.check(frame); got != packet.DropList {
		t.Errorf("%v, want %v", got, packet.DropList)
	}
}
