// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"fmt"
	"net/netip"
	"slices"

	"fastpath/src/packet"
)

// include/uapi/linux/ip6_tunnel.h. The others say what an engine doesn't do:
// copy the inner packet's traffic class, flow label or mark, or unpack DSCP.
const (
	tunnelNoLimit = 0x01 // IP6_TNL_F_IGN_ENCAP_LIMIT
	tunnelCopies  = 0x02 | 0x04 | 0x08 | 0x10 | 0x20
	tunnelHops    = 64 // what packet.NewAction writes

	protoIPv4 = 4
	vlanTags  = 2
	pppoeLen  = 8  // RFC 2516 header and the PPP protocol
	ipv6Len   = 40 // a tunnel's outer header
	maxDepth  = 8  // ends a walk through links that form a ring
)

// endKey names an end: the next hop behind a device of the third layer.
type endKey struct {
	dev int
	hop netip.Addr // on a link without neighbours it is of no matter
	six bool       // the packets are IPv6
}

// end is one side of the router for packets from and to a next hop: the port
// that they come in and leave by, and what is around them there. It is right
// until one of its uses changes, or a link.
type end struct {
	port    Port
	wire    packet.Wire
	mtu     int    // of the devices; the route may have a lower one
	encap   string // in words
	uses    []use
	refusal string // why there is none, in words; "": there is
	stale   bool   // it was right once
}

// walk goes from a device of the third layer down to the port.
type walk struct {
	*end
	r        *resolver
	who      string // the next hop, for reasons
	overhead int    // bytes of headers that come between the packet and the device
	pending  bool   // a route has to be asked for first
}

// makeEnd computes an end; nil: a route is pending.
func (r *resolver) makeEnd(k endKey) *end {
	w := walk{end: &end{mtu: 0xffff}, r: r}
	w.refusal = w.third(k.dev, k.hop, k.six)
	if w.pending {
		return nil
	}
	return w.end
}

// enter notes a device that the packet goes through.
func (w *walk) enter(index int, six bool) (l link, refusal string) {
	l, ok := w.r.world.links[index]
	switch {
	case !ok:
		return l, "a device on its way is gone"
	case !l.up:
		return l, l.name + " is down"
	case !l.carrier:
		return l, l.name + " has no carrier"
	}
	mtu := l.mtu
	if six && l.mtu6 > 0 {
		mtu = min(mtu, l.mtu6)
	}
	w.mtu = min(w.mtu, mtu-w.overhead)
	return l, ""
}

// third takes one step at the third layer: to a neighbour, into a PPPoE
// session, or into a tunnel.
func (w *walk) third(dev int, hop netip.Addr, six bool) (refusal string) {
	l, refusal := w.enter(dev, six)
	switch {
	case refusal != "":
		return refusal
	case l.master != 0:
		return fmt.Sprintf("%s is a part of %s", l.name, w.r.world.name(l.master))
	case l.kind == "ppp":
		return w.pppoe(l)
	case l.kind == "ip6tnl":
		return w.tunnel(l)
	case l.mac == [6]byte{}:
		return fmt.Sprintf("%s is no Ethernet device (%s)", l.name, kindName(l.kind))
	}
	w.who = hop.String()
	key := neighbourKey{l.index, hop}
	w.uses = append(w.uses, use{neighbour: key})
	n := w.r.world.neighbours[key]
	if !n.valid() {
		return fmt.Sprintf("the neighbour %v on %s is not resolved", hop, l.name)
	}
	w.wire.Peer, w.wire.Own = n.mac, l.mac
	return w.second(l)
}

func kindName(kind string) string {
	if kind == "" {
		return "without a MAC"
	}
	return kind
}

// pppoe enters the session of a ppp device. The kernel tells of sessions and of
// ppp devices, but not which belongs to which.
func (w *walk) pppoe(ppp link) (refusal string) {
	sessions := w.r.world.sessions
	devices := 0
	for _, l := range w.r.world.links {
		if l.kind == "ppp" {
			devices++
		}
	}
	switch {
	case len(sessions) == 0:
		return ppp.name + " has no PPPoE session"
	case len(sessions) > 1:
		return fmt.Sprintf("%d PPPoE sessions: the kernel doesn't tell which is %s's", len(sessions), ppp.name)
	case devices > 1:
		return fmt.Sprintf("%d ppp devices: the kernel doesn't tell whose the PPPoE session is", devices)
	}
	s := sessions[0]
	w.note(fmt.Sprintf("pppoe session %d", s.ID))
	w.overhead += pppoeLen
	for _, l := range w.r.world.links {
		if l.name != s.Device {
			continue
		}
		l, refusal := w.enter(l.index, false)
		if refusal != "" {
			return refusal
		}
		w.who = "the concentrator"
		w.wire.Session, w.wire.Peer, w.wire.Own = s.ID, s.Peer, l.mac
		return w.second(l)
	}
	return fmt.Sprintf("%s of the PPPoE session is gone", s.Device)
}

// tunnel enters a tunnel of DS-Lite. Its outer packets have a route of their own.
func (w *walk) tunnel(l link) (refusal string) {
	t := l.tunnel
	switch {
	case w.wire.Local.IsValid():
		return l.name + " is a tunnel in a tunnel"
	case t.proto != protoIPv4:
		return l.name + " does not carry IPv4 only (mode ipip6)"
	case t.flags&tunnelNoLimit == 0:
		return l.name + " adds an encapsulation limit (encaplimit none takes it away)"
	case t.ttl != tunnelHops:
		return fmt.Sprintf("%s has hop limit %d, engines write %d", l.name, t.ttl, tunnelHops)
	case t.odd || t.flags&tunnelCopies != 0:
		return l.name + " has options that engines don't have (traffic class, flow label, mark, mapping rules)"
	case !t.local.Is6() || !t.remote.Is6() || t.local.IsUnspecified() || t.remote.IsUnspecified():
		return l.name + " does not name both its ends"
	case !w.r.world.addresses[t.local]:
		return fmt.Sprintf("the local end %v of %s is not the router's", t.local, l.name)
	}
	rt, ok := w.r.route(query{dst: t.remote, src: t.local, oif: t.lower})
	if !ok {
		w.pending = true
		return ""
	}
	if rt.refusal != "" {
		return rt.refusal
	}
	w.note("ipv4 in ipv6")
	w.overhead += ipv6Len
	if rt.mtu > 0 {
		w.mtu = min(w.mtu, rt.mtu-w.overhead)
	}
	w.wire.Local, w.wire.Remote = t.local, t.remote
	w.wire.Tunnel = w.r.tunnels.id(t.local, t.remote)
	return w.third(rt.dev, nextHop(rt, t.remote), true)
}

// second goes down through VLANs and bridges to the port with the engine.
func (w *walk) second(l link) (refusal string) {
	var bridge [6]byte // the MAC of the bridge that the port is a part of
	for range maxDepth {
		if p, ok := w.r.ports[l.index]; ok {
			return w.arrive(p, l, bridge)
		}
		bridge = [6]byte{}
		switch l.kind {
		case "vlan":
			if l.vlan.priorities {
				return l.name + " sets VLAN priorities (egress-qos-map)"
			}
			w.push(packet.VLAN{Type: l.vlan.protocol, ID: l.vlan.id})
			l, refusal = w.enter(l.lower, false)
		case "bridge":
			bridge = l.mac
			l, refusal = w.bridge(l)
		default:
			return fmt.Sprintf("%s is behind %s, which has no engine", w.who, l.name)
		}
		if refusal != "" {
			return refusal
		}
	}
	return "the links form a ring"
}

// push puts a tag around what there is.
func (w *walk) push(v packet.VLAN) {
	w.wire.VLANs = slices.Insert(w.wire.VLANs, 0, v)
}

// bridge finds the port behind which the peer is.
func (w *walk) bridge(b link) (port link, refusal string) {
	world, vid := w.r.world, uint16(0)
	if b.bridge.filtering {
		if vid, refusal = w.vlanOfBridge(b); refusal != "" {
			return port, refusal
		}
	}
	key := fdbKey{b.index, vid, w.wire.Peer}
	w.uses = append(w.uses, use{fdb: key})
	index, known := world.fdb[key]
	if !known {
		return port, fmt.Sprintf("%s has not learnt behind which port %s is", b.name, w.who)
	}
	port, refusal = w.enter(index, false)
	switch {
	case refusal != "":
		return port, refusal
	case !port.port.ofBridge || port.master != b.index:
		return port, fmt.Sprintf("%s is at %s itself", w.who, b.name)
	case !port.port.forwarding:
		return port, fmt.Sprintf("%s of %s is not forwarding", port.name, b.name)
	case port.port.locked:
		return port, fmt.Sprintf("%s of %s is locked", port.name, b.name)
	case !b.bridge.filtering:
		return port, ""
	}
	v, allowed := world.vlans[vlanKey{index, vid}]
	switch {
	case !allowed:
		return port, fmt.Sprintf("VLAN %d is not allowed on %s", vid, port.name)
	case !v.untagged:
		w.push(packet.VLAN{Type: b.bridge.protocol, ID: vid})
	case !v.pvid:
		return port, fmt.Sprintf("VLAN %d leaves %s without a tag but does not come in so", vid, port.name)
	}
	return port, ""
}

// vlanOfBridge is the VLAN inside a bridge that filters: the tag of the VLAN
// device above it, or the bridge's own.
func (w *walk) vlanOfBridge(b link) (id uint16, refusal string) {
	tags := w.wire.VLANs
	if len(tags) > 0 && tags[0].Type == b.bridge.protocol {
		id = tags[0].ID
		if v, ok := w.r.world.vlans[vlanKey{b.index, id}]; !ok || v.untagged {
			return 0, fmt.Sprintf("VLAN %d is not tagged on %s itself", id, b.name)
		}
		w.wire.VLANs = tags[1:]
		return id, ""
	}
	id = w.r.world.pvid(b.index)
	if id == 0 || !w.r.world.vlans[vlanKey{b.index, id}].untagged {
		return 0, b.name + " itself has no untagged VLAN"
	}
	return id, ""
}

// arrive ends the walk at a port with an engine.
func (w *walk) arrive(p Port, l link, bridge [6]byte) (refusal string) {
	switch {
	case len(w.wire.VLANs) > vlanTags:
		return fmt.Sprintf("%d VLAN tags on %s: engines push two", len(w.wire.VLANs), p.Name)
	case w.wire.Own != l.mac && w.wire.Own != bridge:
		// Its frames don't come to the engine, and another's would.
		return fmt.Sprintf("frames on %s carry another MAC than the port's or its bridge's", p.Name)
	case w.mtu <= 0:
		return "no packet fits into the MTU of " + p.Name
	}
	for _, v := range w.wire.VLANs {
		if v.Type != packet.TypeVLAN && v.Type != packet.TypeQinQ {
			return fmt.Sprintf("VLAN protocol %#04x on %s", v.Type, p.Name)
		}
	}
	w.port, w.wire.Port = p, p.Slot
	for _, v := range slices.Backward(w.wire.VLANs) {
		w.note(tagName(v))
	}
	return ""
}

// note adds what is around the packet further out.
func (w *walk) note(encap string) {
	if w.encap != "" {
		w.encap += " over "
	}
	w.encap += encap
}

func tagName(v packet.VLAN) string {
	if v.Type == packet.TypeQinQ {
		return fmt.Sprintf("802.1ad vlan %d", v.ID)
	}
	return fmt.Sprintf("vlan %d", v.ID)
}
