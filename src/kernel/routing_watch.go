// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

var routingGroups = []int{
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
	unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE,
}

// mostRemembered bounds each thing that is remembered of events. Whoever has
// more of them gets an event too many, or a host's move told too late.
const mostRemembered = 8192

// routingChanges remembers the addresses and default routes that events told
// of: router advertisements repeat all of them every few minutes, or seconds.
type routingChanges struct {
	mu    sync.Mutex
	known map[string]string
	gone  map[netip.Addr]time.Time // when the router lost an address; see lost
	again func()                   // asks for a look
}

func newRoutingChanges(again func()) *routingChanges {
	return &routingChanges{known: map[string]string{}, gone: map[netip.Addr]time.Time{}, again: again}
}

// matters: an address, a default route or a rule comes, goes or changes.
func (c *routingChanges) matters(h unix.NlMsghdr, body []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch h.Type {
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		return true
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		a, index, ok := readAddress(body)
		if !ok {
			return false
		}
		if h.Type == unix.RTM_DELADDR {
			c.lose(a.Addr())
		}
		return c.note(h.Type == unix.RTM_NEWADDR, fmt.Sprint(index, a), "")
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if len(body) < rtmsgLen || body[1] != 0 {
			return false
		}
		matters := false
		for _, r := range (&ways{}).readRoute(body) {
			key := fmt.Sprint(r.From, r.Table, r.Metric)
			matters = c.note(h.Type == unix.RTM_NEWROUTE, key, r.String()) || matters
		}
		return matters
	}
	return false
}

// note says whether this is news.
func (c *routingChanges) note(comes bool, key, value string) bool {
	if !comes {
		delete(c.known, key)
		return true
	}
	if len(c.known) >= mostRemembered {
		clear(c.known)
	}
	old, known := c.known[key]
	c.known[key] = value
	return !known || old != value
}

func (c *routingChanges) lose(a netip.Addr) {
	switch len(c.gone) {
	case 0:
		for _, later := range lostAgain {
			time.AfterFunc(later, c.again)
		}
	case mostRemembered:
		clear(c.gone)
	}
	c.gone[a] = time.Now()
}
