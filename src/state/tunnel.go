// SPDX-License-Identifier: Apache-2.0

package state

// Tunnel is a link of kind ipip or ip6tnl as far as a kernel's flowtable asks;
// the zero value: another kind.
type Tunnel struct {
	// Mode is what it carries over what, in iproute2's words: ipip (IPv4 over IPv4),
	// ip6ip6, ipip6 (IPv4 over IPv6, DS-Lite), or any: more than one of them.
	Mode string
	// Odd is an option that no flowtable does, in iproute2's words: "encaplimit 4",
	// "tclass inherit", "external", "remote any", …; "": there is none.
	Odd string
	// Lower is the index of the link by which the route to the other end leaves; 0: no
	// route. Bound is that of the link that it is bound to; 0: to none.
	Lower, Bound int
}
