// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// VLAN is one tag.
type VLAN struct {
	Type uint16 // TypeVLAN or TypeQinQ
	ID   uint16 // 0 to 4095
}

// Wire says how IP packets are wrapped on the wire of a port. With Local and
// Remote they are IPv4 in IPv6 packets: a tunnel of DS-Lite (RFC 6333).
type Wire struct {
	Port    uint16  // slot
	VLANs   []VLAN  // the outer one first; at most two
	Session uint16  // PPPoE session id; 0: no PPPoE
	Peer    [6]byte // the MAC of the next hop, or of the concentrator
	Own     [6]byte // our MAC; NewKey doesn't look at it

	Local, Remote netip.Addr // the tunnel's ends, IPv6; both or none
	Tunnel        uint16     // the tunnel's id, above 0; only NewKey looks at it
}

func (w Wire) tunnelled() bool { return w.Local.IsValid() || w.Remote.IsValid() }

// Tuple is a flow's addresses and ports as one side of the router has them.
type Tuple struct {
	Proto    uint8 // TCP or UDP
	Src, Dst netip.AddrPort
}

// NewKey is the key of packets of a flow that come in by in. An IPv4 address
// must not be written as IPv6 (::ffff:1.2.3.4).
func NewKey(in Wire, t Tuple) (Key, error) {
	k, err := newKey(in, t)
	if err == nil && in.tunnelled() && in.Tunnel == 0 {
		err = fmt.Errorf("the tunnel from %v to %v has no id", in.Remote, in.Local)
	}
	k.Tunnel = in.Tunnel
	return k, err
}

func newKey(in Wire, t Tuple) (Key, error) {
	var k Key
	if err := checkTuple(t); err != nil {
		return k, err
	}
	if err := checkTunnel(in, t); err != nil {
		return k, err
	}
	if len(in.VLANs) > len(k.Tags) {
		return k, fmt.Errorf("%d VLAN tags: at most %d", len(in.VLANs), len(k.Tags))
	}
	k.Family = 6
	if t.Src.Addr().Is4() {
		k.Family = 4
	}
	copy(k.Src[:], t.Src.Addr().AsSlice())
	copy(k.Dst[:], t.Dst.Addr().AsSlice())
	binary.BigEndian.PutUint16(k.SrcPort[:], t.Src.Port())
	binary.BigEndian.PutUint16(k.DstPort[:], t.Dst.Port())
	for i, v := range in.VLANs {
		if err := checkVLAN(v); err != nil {
			return k, err
		}
		binary.BigEndian.PutUint16(k.Tags[i][:], v.ID)
		k.Tags[i][0] |= tagged
		if v.Type == TypeQinQ {
			k.Tags[i][0] |= tagQinQ
		}
	}
	if in.Session != 0 {
		binary.BigEndian.PutUint16(k.Session[:], in.Session)
		k.Peer = in.Peer
	}
	k.Port = in.Port
	k.Proto = t.Proto
	return k, nil
}

// NewAction is the action that makes packets of flow k leave by out with the
// tuple t. mtu is the longest IP packet that may leave, so PPPoE's 8 bytes and a
// tunnel's 40 are already off.
func NewAction(k Key, out Wire, t Tuple, mtu uint16) (Action, error) {
	var a Action
	to, err := newKey(out, t)
	if err != nil {
		return a, err
	}
	if to.Family != k.Family || to.Proto != k.Proto {
		return a, fmt.Errorf("a flow of IPv%d protocol %d can't leave as IPv%d protocol %d",
			k.Family, k.Proto, to.Family, to.Proto)
	}
	a = Action{Out: out.Port, MTU: mtu, SrcPort: to.SrcPort, DstPort: to.DstPort, Src: to.Src, Dst: to.Dst}
	addrs := difference(k.Src[:], to.Src[:]) + difference(k.Dst[:], to.Dst[:])
	ports := difference(k.SrcPort[:], to.SrcPort[:]) + difference(k.DstPort[:], to.DstPort[:])
	const ttl = 0xffff - 0x0100 // one less in the high byte of its word
	a.L3Diff = fold(addrs + ttl)
	a.L4Diff = fold(addrs + ports + 0xffff) // no change is 0xffff, never 0: see adjust
	a.setL2(k.Family, out)
	return a, nil
}

// tunnelHops is the hop limit of outer packets, as the kernel's tunnels have it.
const tunnelHops = 64

func (a *Action) setL2(family uint8, out Wire) {
	l2 := append(a.L2[:0], out.Peer[:]...)
	l2 = append(l2, out.Own[:]...)
	for _, v := range out.VLANs {
		l2 = binary.BigEndian.AppendUint16(l2, v.Type)
		l2 = binary.BigEndian.AppendUint16(l2, v.ID)
	}
	typ, ppp := uint16(typeIPv4), uint16(pppIPv4)
	if family == 6 || out.tunnelled() {
		typ, ppp = typeIPv6, pppIPv6
	}
	if out.Session == 0 {
		l2 = binary.BigEndian.AppendUint16(l2, typ)
	} else {
		a.Encap |= encapPPPoE
		l2 = binary.BigEndian.AppendUint16(l2, typePPPoE)
		l2 = append(l2, 0x11, 0)
		l2 = binary.BigEndian.AppendUint16(l2, out.Session)
		l2 = append(l2, 0, 0)
		l2 = binary.BigEndian.AppendUint16(l2, ppp)
	}
	if out.tunnelled() {
		a.Encap |= encapTunnel
		l2 = append(l2, 0x60, 0, 0, 0, 0, 0, protoIPv4, tunnelHops)
		l2 = append(l2, out.Local.AsSlice()...)
		l2 = append(l2, out.Remote.AsSlice()...)
	}
	a.L2Len = uint8(len(l2))
}

// difference is the sum of ~m + m' over the 16-bit words of from and to (RFC
// 1624), not folded.
func difference(from, to []byte) (sum uint32) {
	for i := 0; i < len(from); i += 2 {
		sum += uint32(^binary.BigEndian.Uint16(from[i:])) + uint32(binary.BigEndian.Uint16(to[i:]))
	}
	return sum
}

// fold makes 16 bits of a sum, with end-around carry; what isn't 0 stays so.
func fold(sum uint32) (b [2]byte) {
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[:], uint16(sum))
	return b
}

func checkTuple(t Tuple) error {
	src, dst := t.Src.Addr(), t.Dst.Addr()
	switch {
	case t.Proto != TCP && t.Proto != UDP:
		return fmt.Errorf("protocol %d is neither TCP nor UDP", t.Proto)
	case !src.IsValid() || !dst.IsValid() || src.Is4() != dst.Is4() || src.Is4In6() || dst.Is4In6():
		return fmt.Errorf("%v and %v are not two addresses of one family", src, dst)
	}
	return nil
}

func checkTunnel(w Wire, t Tuple) error {
	switch {
	case !w.tunnelled():
		if w.Tunnel != 0 {
			return fmt.Errorf("tunnel %d has no addresses", w.Tunnel)
		}
	case !w.Local.Is6() || !w.Remote.Is6() || w.Local.Is4In6() || w.Remote.Is4In6():
		return fmt.Errorf("%v and %v are not the two IPv6 addresses of a tunnel", w.Local, w.Remote)
	case !t.Src.Addr().Is4():
		return fmt.Errorf("%v can't go by the tunnel: it carries IPv4", t.Src.Addr())
	}
	return nil
}

func checkVLAN(v VLAN) error {
	if v.Type != TypeVLAN && v.Type != TypeQinQ {
		return fmt.Errorf("VLAN type %#04x is neither 802.1Q nor 802.1ad", v.Type)
	}
	if v.ID > 0xfff {
		return fmt.Errorf("VLAN id %d is above 4095", v.ID)
	}
	return nil
}
