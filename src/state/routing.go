// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"net/netip"
)

// Routing is what decides by which way packets leave the router: its default
// routes, its own addresses, and the rules of policy routing.
type Routing struct {
	Defaults  []Route   // one for each next hop; sorted by String
	Addresses []Address // without IPv6's link-local ones; sorted by String
	// Rules are asked before every packet is led to table main; by family, in
	// their order. On most routers there are none.
	Rules []RoutingRule
	// Astray are answers that a rule for the device by which they come in would
	// not lead to the network they belong to, in words.
	Astray []string
	// Moved are hosts, in words, that have moved to another port of a bridge, or
	// to another MAC, since the flows in the flowtable that go to them were learnt.
	Moved []string
	// Lost are addresses that the router has no more, and from which it still
	// sends packets of connections (source NAT); sorted.
	Lost []netip.Addr
}

// Route is a default route, or one of its next hops.
type Route struct {
	Device  string
	Gateway netip.Addr   // invalid: none
	From    netip.Prefix // packets with these sources only (IPv6); its family is the route's
	Table   uint32
	Metric  uint32
}

// String is the route as ip shows it.
func (r Route) String() string {
	via := ""
	if r.Gateway.IsValid() {
		via = " via " + r.Gateway.String()
	}
	return fmt.Sprintf("default from %v%s dev %s table %d metric %d", r.From, via, r.Device, r.Table, r.Metric)
}

// Address is one of the router's own.
type Address struct {
	Device string
	Prefix netip.Prefix // the address, and the length of its network
}

// String is the address and its device.
func (a Address) String() string { return a.Prefix.String() + " dev " + a.Device }

// RoutingRule is a rule of policy routing, as far as a plan has to understand it.
type RoutingRule struct {
	Text string // much as ip rule shows it; rules with the same text do the same
	Mask uint32 // the bits of the mark that it looks at
	Iif  string // packets that come in by this device only
	Oif  string // packets of the router's own, bound to this device, only
	// Strange is what it looks at, in ip's words, that may differ between the
	// packets of a connection, or between a packet and what the kernel asks when
	// it puts a connection into a flowtable. "": nothing.
	Strange string
}

// ForgetConnections deletes the connections that the router sends from
// addresses that it has lost: no answer to them can reach it any more.
type ForgetConnections struct{ Addresses []netip.Addr }

func (ForgetConnections) step() {}

func (s ForgetConnections) String() string {
	return fmt.Sprintf("forget the connections sent from addresses that are lost: %v", s.Addresses)
}
