// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"maps"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// world is what the kernel has besides routes. Whole readings replace one
// another; what happens to neighbours in between is written into it.
type world struct {
	links      map[int]link
	addresses  map[netip.Addr]bool // the router's own
	neighbours map[neighbourKey]neighbour
	fdb        map[fdbKey]int   // the port's ifindex
	vlans      map[vlanKey]vlan // of bridges that filter, and of their ports
	sessions   []state.Session  // PPPoE
	rules      rules            // of policy routing
	ipsec      bool             // there are IPsec policies
}

// link is one netdev.
type link struct {
	index   int
	name    string
	kind    string // rtnetlink kind: "", bridge, vlan, ppp, ip6tnl, …
	lower   int    // IFLA_LINK inside this namespace; 0: none
	master  int    // 0: none
	mac     [6]byte
	mtu     int
	mtu6    int // IPv6's own (a router advertisement may have lowered it); 0: no IPv6
	up      bool
	carrier bool
	vlan    vlanInfo   // kind vlan
	bridge  bridgeInfo // kind bridge
	port    portInfo   // of a bridge's port
	tunnel  tunnelInfo // kind ip6tnl
}

type vlanInfo struct {
	protocol   uint16 // packet.TypeVLAN, packet.TypeQinQ
	id         uint16
	priorities bool // it sets the tag's priority bits of some packets
}

type bridgeInfo struct {
	filtering bool
	protocol  uint16 // of the VLANs that it filters
}

type portInfo struct {
	ofBridge   bool
	forwarding bool // the spanning tree's state
	locked     bool // frames are taken from known hosts only (802.1X)
}

type tunnelInfo struct {
	local, remote netip.Addr
	lower         int   // the device that it is bound to; 0: any
	proto         uint8 // of the inner packet; 4: IPv4 (RFC 2473)
	ttl           uint8
	flags         uint32 // IP6_TNL_F_*
	odd           bool   // it has something that an engine doesn't do
}

// neighbourKey names a host on a link.
type neighbourKey struct {
	dev  int
	addr netip.Addr
}

type neighbour struct {
	mac   [6]byte
	state uint16 // NUD_*
}

// nudValid are the states in which the kernel would send to the MAC
// (NUD_VALID, include/net/neighbour.h).
const nudValid = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE | unix.NUD_PROBE | unix.NUD_STALE | unix.NUD_DELAY

func (n neighbour) valid() bool {
	return n.state&nudValid != 0 && n.mac != [6]byte{} && n.mac[0]&1 == 0
}

// same says whether frames to n and m are the same; states come and go.
func (n neighbour) same(m neighbour) bool { return n.mac == m.mac && n.valid() == m.valid() }

// fdbKey names a MAC in a bridge; vlan is 0 where the bridge doesn't filter.
type fdbKey struct {
	bridge int
	vlan   uint16
	mac    [6]byte
}

type vlanKey struct {
	dev int
	id  uint16
}

// vlan is how a bridge's port, or the bridge itself, has a VLAN.
type vlan struct{ pvid, untagged bool }

// pvid is the VLAN of untagged frames that come in by dev; 0: none.
func (w *world) pvid(dev int) uint16 {
	for k, v := range w.vlans {
		if k.dev == dev && v.pvid {
			return k.id
		}
	}
	return 0
}

// rules says what the kernel's routing rules look at.
type rules struct {
	marks []uint32 // each mark that a rule asks for
	ports bool     // a rule looks at the protocol or the ports
	tos   bool     // a rule looks at the TOS
}

func newWorld() *world {
	return &world{
		links: map[int]link{}, addresses: map[netip.Addr]bool{},
		neighbours: map[neighbourKey]neighbour{}, fdb: map[fdbKey]int{}, vlans: map[vlanKey]vlan{},
	}
}

// equal compares everything but neighbours and forwarding databases: what a
// change of makes every flow to be resolved again.
func (w *world) equal(o *world) bool {
	return maps.Equal(w.links, o.links) && maps.Equal(w.addresses, o.addresses) && maps.Equal(w.vlans, o.vlans) &&
		slices.Equal(w.sessions, o.sessions) && w.ipsec == o.ipsec &&
		slices.Equal(w.rules.marks, o.rules.marks) && w.rules.ports == o.rules.ports && w.rules.tos == o.rules.tos
}

// name is a link's name for the owner.
func (w *world) name(index int) string {
	if l, ok := w.links[index]; ok {
		return l.name
	}
	return "a device that is gone"
}
