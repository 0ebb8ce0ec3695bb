// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"fastpath/src/state"
)

// The largest flows are those that sorting all of them gives.
func TestTop(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	for _, n := range []int{0, 1, topFlows - 1, topFlows, topFlows + 1, 1000} {
		var got top
		var all []uint64
		for range n {
			g := Growth{Orig: Volume{Bytes: r.Uint64N(5000)}, Reply: Volume{Bytes: r.Uint64N(5000)}}
			got.add(g)
			all = append(all, g.bytes())
		}
		slices.SortFunc(all, func(a, b uint64) int { return cmp.Compare(b, a) })
		all = slices.DeleteFunc(all[:min(n, topFlows)], func(b uint64) bool { return b == 0 })
		var list []uint64
		for _, g := range got.list {
			list = append(list, g.bytes())
		}
		slices.SortFunc(list, func(a, b uint64) int { return cmp.Compare(b, a) })
		if !slices.Equal(list, all) {
			t.Errorf("%d flows: %d, want %d", n, list, all)
		}
	}
}

// A Delta tells how each direction of a flow grew, and the softirqs' ticks.
func TestDeltaGrowth(t *testing.T) {
	flow := func(port uint16, orig, reply uint64, counted bool) state.Flow {
		return state.Flow{Proto: "udp", Counted: counted, Orig: state.Tuple{Src: "192.0.2.1", SrcPort: port, Packets: orig, Bytes: 100 * orig},
			Reply: state.Tuple{Packets: reply, Bytes: 100 * reply}}
	}
	var m Meter
	now := time.Unix(1000, 0)
	m.AddStat([]byte("cpu0 0 0 0 0 0 0 50 0 0 0\ncpu1 0 0 0 0 0 0 7 0 0 0\n"))
	m.Add(now, state.Counters{}, []state.Flow{flow(1, 10, 20, true), flow(2, 500, 0, true), flow(3, 1, 1, false)})
	m.AddStat([]byte("cpu0 0 0 0 0 0 0 80 0 0 0\ncpu1 0 0 0 0 0 0 10 0 0 0\ncpu2 0 0 0 0 0 0 999 0 0 0\n"))
	d := m.Add(now.Add(10*time.Second), state.Counters{}, []state.Flow{flow(1, 13, 60, true), flow(2, 4, 5, true), flow(3, 9, 9, false)})
	if d.Softirq != 33 || d.Uncounted != 1 || len(d.Top) != 2 {
		t.Fatalf("%+v", d)
	}
	want := map[uint16][2]uint64{1: {3, 40}, 2: {4, 5}} // of 2 there were more: it is another one
	for _, g := range d.Top {
		if got := [2]uint64{g.Orig.Packets, g.Reply.Packets}; got != want[g.Flow.Orig.SrcPort] || g.Orig.Bytes != 100*got[0] {
			t.Errorf("flow %d grew by %+v", g.Flow.Orig.SrcPort, g)
		}
	}
	if d.Known.Packets != 43 || d.Fresh.Packets != 9 {
		t.Errorf("known %+v, fresh %+v", d.Known, d.Fresh)
	}
}
