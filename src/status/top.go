// SPDX-License-Identifier: Apache-2.0

package status

import "fastpath/src/state"

// Growth is how one flow of the flowtable grew between two samples: Orig is
// what its originator sent.
type Growth struct {
	Flow        *state.Flow // of the later sample
	Orig, Reply Volume
}

func (g Growth) bytes() uint64 { return g.Orig.Bytes + g.Reply.Bytes }

// topFlows is how many of the largest flows a Delta names: enough to tell few
// from many, and to know where most of the bytes came in.
const topFlows = 64

// top gathers the flows that grew most.
type top struct {
	list  []Growth
	least int // index of the smallest once the list is full
}

func (t *top) add(g Growth) {
	switch {
	case g.bytes() == 0:
		return
	case len(t.list) < topFlows:
		t.list = append(t.list, g)
	case g.bytes() > t.list[t.least].bytes():
		t.list[t.least] = g
	default:
		return
	}
	if len(t.list) < topFlows {
		return
	}
	for i := range t.list {
		if t.list[i].bytes() < t.list[t.least].bytes() {
			t.least = i
		}
	}
}
