// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"bytes"
	"net/netip"
	"sort"

	"fastpath/src/state"
)

const listedReason = "a drop section lists one of its ends"

// SetDrop says whose packets are to be dropped from now on. The XDP program looks
// only packets without a flow up in the list: no engine carries the connections of
// listed hosts. Those it does are gone from the Sink before it returns.
func (s *Sync) SetDrop(sets []state.DropSet) {
	s.do(func() {
		s.dropped = sets
		var list []*flow
		for _, f := range s.table.flows {
			if listed := s.listed(&f.connection); f.carried && listed || !listed && f.reason == listedReason {
				list = append(list, f)
			}
		}
		s.release(list)
	})
}

// listed: one of the two hosts that the packets come from is.
func (s *Sync) listed(c *connection) bool {
	for _, set := range s.dropped {
		for _, a := range [2]netip.Addr{c.orig.Src.Addr(), c.destination().Addr()} {
			if has(set, a) {
				return true
			}
		}
	}
	return false
}

func has(set state.DropSet, a netip.Addr) bool {
	if a.Is4() {
		key := a.As4()
		i := sort.Search(len(set.V4), func(i int) bool { return bytes.Compare(set.V4[i][1][:], key[:]) >= 0 })
		return i < len(set.V4) && bytes.Compare(set.V4[i][0][:], key[:]) <= 0
	}
	key := a.As16()
	i := sort.Search(len(set.V6), func(i int) bool { return bytes.Compare(set.V6[i][1][:], key[:]) >= 0 })
	return i < len(set.V6) && bytes.Compare(set.V6[i][0][:], key[:]) <= 0
}
