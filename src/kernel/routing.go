// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"sort"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

const (
	rtmsgLen     = 12 // struct rtmsg
	ifaddrmsgLen = 8  // struct ifaddrmsg

	// routesMost bounds what is read of the routing tables. Default routes come
	// first in each (the kernel goes through a table in the order of addresses).
	routesMost = 10_000
)

// routing reads addresses, default routes and rules, tells the links which of
// them are addressed, and finds out which flows have lost their ways.
func (k *Kernel) routing(links []state.Link) (state.Routing, error) {
	c, err := dial(unix.NETLINK_ROUTE, k.inject)
	if err != nil {
		return state.Routing{}, err
	}
	defer c.close()
	w := ways{c: c, names: map[int]string{}, up: map[string]bool{}, gateways: map[netip.Addr]bool{}}
	for i := range links {
		w.names[links[i].Index], w.up[links[i].Name] = links[i].Name, links[i].Up
	}
	for _, read := range []func() error{func() error { return w.addresses(links) }, w.routes, w.rules, w.goAstray} {
		if err := read(); err != nil {
			return w.r, err
		}
	}
	return w.r, k.strays(&w)
}

// strays finds the flows of hosts that have moved and the connections of
// addresses that are lost. Nobody asks conntrack while nothing has happened.
func (k *Kernel) strays(w *ways) error {
	c, err := k.nfnetlink()
	if err != nil {
		return err
	}
	defer c.close()
	flows := func(each func(state.Flow)) error { return c.connections(state.StatusOffload, func() {}, each) }
	if w.r.Moved, err = k.hosts.pending(flows, w.gateways); err == nil {
		w.r.Lost, err = k.lost(c, w.r.Addresses)
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil // a kernel without ctnetlink
	}
	return err
}

// ways reads a Routing.
type ways struct {
	c        *conn
	names    map[int]string
	r        state.Routing
	up       map[string]bool
	policy   []routingRule
	gateways map[netip.Addr]bool // of any route; nil: they don't matter
}

func (w *ways) name(index uint32) string {
	return cmp.Or(w.names[int(index)], fmt.Sprintf("#%d", index))
}

// addresses leaves out link-local IPv6 addresses: each device that is up has one.
func (w *ways) addresses(links []state.Link) error {
	addressed := map[string]bool{}
	err := steady(func() error {
		w.r.Addresses = nil
		clear(addressed)
		return w.c.ask(request{call: "read the addresses", typ: unix.RTM_GETADDR, dump: true, header: make([]byte, ifaddrmsgLen)},
			func(body []byte) {
				if a, index, ok := readAddress(body); ok {
					name := w.name(index)
					addressed[name] = true
					w.r.Addresses = append(w.r.Addresses, state.Address{Device: name, Prefix: a})
				}
			})
	})
	sort.Slice(w.r.Addresses, func(i, j int) bool { return w.r.Addresses[i].String() < w.r.Addresses[j].String() })
	for i := range links {
		links[i].Addressed = addressed[links[i].Name]
	}
	return err
}

// readAddress reads RTM_NEWADDR. IPv4's IFA_ADDRESS is the peer's on a
// point-to-point link; IPv6 has IFA_LOCAL only there.
func readAddress(body []byte) (p netip.Prefix, index uint32, ok bool) {
	if len(body) < ifaddrmsgLen {
		return p, 0, false
	}
	var local, address netip.Addr
	for typ, b := range attrs(body[ifaddrmsgLen:]) {
		switch typ {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(b)
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(b)
		}
	}
	if local.IsValid() {
		address = local
	}
	return netip.PrefixFrom(address, int(body[1])), u32(body[4:]), address.IsValid() && !(address.Is6() && address.IsLinkLocalUnicast())
}

func (w *ways) routes() error {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		before := len(w.r.Defaults)
		err := steady(func() error {
			w.r.Defaults = w.r.Defaults[:before]
			return w.routesOf(family)
		})
		if err != nil && !noFamily(err) {
			return err
		}
	}
	sort.Slice(w.r.Defaults, func(i, j int) bool { return w.r.Defaults[i].String() < w.r.Defaults[j].String() })
	return nil
}

// noFamily: a kernel without IPv6, or without rules, has none of it.
func noFamily(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)
}

// routesOf dumps the routes of a family on a socket of its own, as it may stop
// before the end.
func (w *ways) routesOf(family byte) error {
	c, err := dial(unix.NETLINK_ROUTE, w.c.fault)
	if err != nil {
		return err
	}
	defer c.close()
	n := 0
	header := make([]byte, rtmsgLen)
	header[0] = family
	enough := errors.New("enough")
	err = c.askSome(request{call: "read the routes", typ: unix.RTM_GETROUTE, dump: true, header: header}, func(body []byte) error {
		// A kernel without IPv6 answers with the routes of all families instead.
		if len(body) > 0 && body[0] == family {
			w.r.Defaults = append(w.r.Defaults, w.readRoute(body)...)
		}
		if n++; n == routesMost {
			return enough
		}
		return nil
	})
	if err == enough {
		return nil
	}
	return err
}

// readRoute gives a default route's next hops, and notes every route's gateway.
func (w *ways) readRoute(body []byte) (list []state.Route) {
	if len(body) < rtmsgLen || u32(body[8:])&unix.RTM_F_CLONED != 0 || body[7] != unix.RTN_UNICAST {
		return nil
	}
	zero := netip.IPv4Unspecified()
	if body[0] == unix.AF_INET6 {
		zero = netip.IPv6Unspecified()
	}
	r := state.Route{From: netip.PrefixFrom(zero, 0), Table: uint32(body[4])}
	hop := r
	var several []byte
	for typ, b := range attrs(body[rtmsgLen:]) {
		switch typ {
		case unix.RTA_SRC:
			if a, ok := netip.AddrFromSlice(b); ok {
				r.From = netip.PrefixFrom(a, int(body[2]))
			}
		case unix.RTA_TABLE:
			r.Table = u32(b)
		case unix.RTA_PRIORITY:
			r.Metric = u32(b)
		case unix.RTA_MULTIPATH:
			several = b
		default:
			w.readHop(&hop, typ, b)
		}
	}
	for _, hop := range append(w.readHops(several), hop) {
		if hop.Gateway.IsValid() && w.gateways != nil {
			w.gateways[hop.Gateway] = true
		}
		if r.Device, r.Gateway = hop.Device, hop.Gateway; body[1] == 0 && r.Device != "" {
			list = append(list, r)
		}
	}
	return list
}

// readHops reads the next hops of a route that has several: each is a struct
// rtnexthop (length, flags, hops, ifindex) with attributes.
func (w *ways) readHops(several []byte) (hops []state.Route) {
	for len(several) >= 8 {
		n := int(u16(several))
		if n < 8 || n > len(several) {
			break
		}
		hop := state.Route{Device: w.name(u32(several[4:]))}
		for typ, b := range attrs(several[8:n]) {
			w.readHop(&hop, typ, b)
		}
		hops = append(hops, hop)
		several = several[min(align(n), len(several)):]
	}
	return hops
}

func (w *ways) readHop(hop *state.Route, typ uint16, b []byte) {
	switch typ {
	case unix.RTA_OIF:
		hop.Device = w.name(u32(b))
	case unix.RTA_GATEWAY:
		hop.Gateway, _ = netip.AddrFromSlice(b)
	case unix.RTA_VIA: // struct rtvia: a family and its address
		if len(b) > 2 {
			hop.Gateway, _ = netip.AddrFromSlice(b[2:])
		}
	}
}
