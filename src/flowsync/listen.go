// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// Multicast groups, include/uapi/linux/netfilter/nfnetlink_compat.h and
// rtnetlink.h. New connections don't interest: the bit comes later, with an
// update.
const (
	groupUpdate  = 2 // NFNLGRP_CONNTRACK_UPDATE
	groupDestroy = 3 // NFNLGRP_CONNTRACK_DESTROY
)

var rtnetlinkGroups = []int{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_NEXTHOP, unix.RTNLGRP_BRVLAN,
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
	unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE,
}

// report is what the kernel told in one burst.
type report struct {
	connections []event
	neighbours  []change
	world       bool // links, VLANs or IPsec policies
	routes      bool // or what routes follow from: addresses, rules, links
	overrun     bool // some of it is lost
}

// event is an update of a connection, or its end.
type event struct {
	connection
	gone bool
}

// change is a message about a neighbour or a bridge's host.
type change struct {
	body []byte
	gone bool
}

// hear takes what the kernel has told until now.
func (s *Sync) hear() {
	for _, sub := range s.subscriptions {
		var rep report
		rep.overrun, s.deaf = sub.receive(func(typ uint16, body []byte) { sub.note(&rep, typ, body) })
		if s.deaf != nil {
			return
		}
		s.take(rep)
	}
}

// noteConnection adds a message of ctnetlink.
func noteConnection(rep *report, typ uint16, body []byte) {
	if c, ok := readConnection(body); ok {
		rep.connections = append(rep.connections, event{c, typ == ctnetlink|ctDelete})
	}
}

// noteChange adds a message of rtnetlink.
func noteChange(rep *report, typ uint16, body []byte) {
	switch typ {
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		rep.neighbours = append(rep.neighbours, change{bytes.Clone(body), typ == unix.RTM_DELNEIGH})
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE, unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP,
		unix.RTM_NEWRULE, unix.RTM_DELRULE, unix.RTM_NEWADDR, unix.RTM_DELADDR, unix.RTM_DELLINK:
		rep.routes = true
	case unix.RTM_NEWLINK:
		// A link that goes down takes IPv4's routes with it without a word, and
		// may be up again when the world is read.
		rep.world = true
		rep.routes = rep.routes || !isUp(body)
	default:
		rep.world = true
	}
}

// notePolicy adds a message about IPsec.
func notePolicy(rep *report, _ uint16, _ []byte) { rep.world = true }

// isUp reads IFF_UP from a message about a link.
func isUp(body []byte) bool {
	return len(body) >= ifinfomsgLen && u32(body[8:])&unix.IFF_UP != 0
}
