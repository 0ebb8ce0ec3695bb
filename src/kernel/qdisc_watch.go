// SPDX-License-Identifier: Apache-2.0

package kernel

import "golang.org/x/sys/unix"

// qdiscAt is where a qdisc stands, qdiscKind what counts of it.
type (
	qdiscAt struct {
		index  int
		parent uint32
	}
	qdiscKind struct {
		kind   string
		shapes bool
	}
)

// qdiscChanges remembers the qdiscs that events told of: a script that sets a
// shaper's rate anew each second wakes nobody.
type qdiscChanges map[qdiscAt]qdiscKind

// mostQdiscs bounds what is remembered of devices that are gone, which no event tells.
const mostQdiscs = 4096

// matters: a qdisc comes, goes or begins to limit, or a filter at tc ingress or
// egress comes or goes. Filters and classes inside of a qdisc only sort packets.
func (c qdiscChanges) matters(h unix.NlMsghdr, body []byte) bool {
	q := readQdisc(body)
	at := qdiscAt{q.index, q.parent}
	switch h.Type {
	case unix.RTM_NEWQDISC:
		if len(c) >= mostQdiscs {
			clear(c)
		}
		is, was := qdiscKind{q.kind, q.shapes()}, c[at]
		c[at] = is
		return is != was
	case unix.RTM_DELQDISC:
		delete(c, at)
		return true
	case unix.RTM_NEWTFILTER, unix.RTM_DELTFILTER:
		return q.parent>>16 == tcIngress>>16
	}
	return false
}
