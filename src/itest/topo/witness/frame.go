// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Rules are what holds for each frame with TCP or UDP in it at an endpoint.
type Rules struct {
	Own      net.HardwareAddr   // the endpoint's
	From     []net.HardwareAddr // the router's on this side
	VLAN     uint16             // 0: untagged
	Session  func(uint16) bool  // whether a PPPoE session may be used; nil: no PPPoE
	Tunnel   [2]netip.Addr      // ends of a DS-Lite tunnel that IPv4 comes by; invalid: none
	Src, Dst []netip.Addr       // of the IP packet
	TTL      uint8              // what the router has left of 64
	MTU      int                // longest IP packet
}

// IP protocol numbers and Ethernet types.
const (
	icmp, igmp, ipip, tcp, udp, icmpv6 = 1, 2, 4, 6, 17, 58

	typeIPv4, typeARP, typeIPv6        = 0x0800, 0x0806, 0x86dd
	typeDiscovery, typeSession         = 0x8863, 0x8864
	pppIPv4, pppIPv6                   = 0x0021, 0x0057
	pppLCP, pppPAP, pppIPCP, pppIPv6CP = 0xc021, 0xc023, 0x8021, 0x8057
)

var errShort = errors.New("the frame ends too early")

// Check says what is wrong with a frame, whose VLAN tag the kernel has taken
// off; tag is 0 if it had none. It looks at every byte but what TCP and UDP
// carry, which the checksum covers.
func (r *Rules) Check(frame []byte, tag uint16) error {
	if len(frame) < 14 {
		return errShort
	}
	dst, src := net.HardwareAddr(frame[:6]), net.HardwareAddr(frame[6:12])
	if dst[0]&1 == 0 && dst.String() != r.Own.String() {
		return fmt.Errorf("it is for %s", dst)
	}
	kind := binary.BigEndian.Uint16(frame[12:])
	l := look{Rules: r, padded: len(frame) <= 60}
	l4, err := l.network(kind, frame[14:])
	if err != nil || !l4 {
		return err
	}
	switch {
	case dst.String() != r.Own.String():
		return fmt.Errorf("TCP or UDP for %s", dst)
	case !slices.ContainsFunc(r.From, func(m net.HardwareAddr) bool { return m.String() == src.String() }):
		return fmt.Errorf("from MAC %s", src)
	case tag != r.VLAN:
		return fmt.Errorf("VLAN %d", tag)
	case (kind == typeSession) != (r.Session != nil):
		return fmt.Errorf("type %#04x behind Ethernet", kind)
	}
	return nil
}

// look is one frame being looked at.
type look struct {
	*Rules
	padded bool // it is as short as Ethernet allows, so something may follow the packet
}

// network checks what an Ethernet frame carries; l4 is whether that is TCP or UDP.
func (l look) network(kind uint16, data []byte) (l4 bool, err error) {
	switch kind {
	case typeARP, typeDiscovery:
		return false, nil
	case typeIPv4:
		return l.ipv4(data, l.Tunnel[0].IsValid())
	case typeIPv6:
		return l.ipv6(data)
	case typeSession:
		return l.pppoe(data)
	}
	return false, fmt.Errorf("type %#04x behind Ethernet", kind)
}

// pppoe checks RFC 2516's header and PPP's protocol number.
func (l look) pppoe(data []byte) (l4 bool, err error) {
	if len(data) < 8 {
		return false, errShort
	}
	length := int(binary.BigEndian.Uint16(data[4:]))
	if data[0] != 0x11 || data[1] != 0 || length < 2 || length > len(data)-6 {
		return false, fmt.Errorf("PPPoE header % x of a frame with %d bytes more", data[:6], len(data)-6)
	}
	payload := data[8 : 6+length]
	if len(data) > 6+length && !l.padded {
		return false, fmt.Errorf("%d bytes after the end of PPPoE", len(data)-6-length)
	}
	switch proto := binary.BigEndian.Uint16(data[6:]); proto {
	case pppIPv4:
		l4, err = l.ipv4(payload, false)
	case pppIPv6:
		l4, err = l.ipv6(payload)
	case pppLCP, pppPAP, pppIPCP, pppIPv6CP:
		if len(payload) < 4 || payload[0] == 0 || payload[0] > 11 || int(binary.BigEndian.Uint16(payload[2:])) > len(payload) {
			return false, fmt.Errorf("PPP control packet % x", payload) // code and length: RFC 1661 section 5
		}
		return false, nil
	default:
		return false, fmt.Errorf("PPP protocol %#04x", proto)
	}
	if id := binary.BigEndian.Uint16(data[2:]); err == nil && l4 && l.Session != nil && !l.Session(id) {
		err = fmt.Errorf("PPPoE session %d, which is not alive", id)
	}
	return l4, err
}

// ipv4 checks an IPv4 packet; tunnelled says that its TCP and UDP should have
// come by the tunnel.
func (l look) ipv4(data []byte, tunnelled bool) (l4 bool, err error) {
	if len(data) < 20 {
		return false, errShort
	}
	header, total := int(data[0]&15)*4, int(binary.BigEndian.Uint16(data[2:]))
	if data[0]>>4 != 4 || header < 20 || header > total || !l.fits(total, data) {
		return false, fmt.Errorf("IPv4 header %#02x, length %d of %d bytes", data[0], total, len(data))
	}
	if sum(0, data[:header]) != 0xffff {
		return false, errors.New("wrong IPv4 header checksum")
	}
	src, dst := netip.AddrFrom4([4]byte(data[12:16])), netip.AddrFrom4([4]byte(data[16:20]))
	proto, payload := data[9], data[header:total]
	l4 = proto == tcp || proto == udp
	if !l4 && proto != icmp && proto != igmp {
		return false, fmt.Errorf("IPv4 protocol %d", proto)
	}
	if l4 && tunnelled {
		return true, fmt.Errorf("IPv4 from %s outside of the tunnel", src)
	}
	if err := l.packet(l4, src, dst, data[8], total); err != nil {
		return l4, err
	}
	if fragment := binary.BigEndian.Uint16(data[6:]) & 0x3fff; fragment != 0 {
		return l4, nil // the receiver's kernel checks the whole
	}
	return l4, transport(proto, data[12:20], payload)
}

func (l look) ipv6(data []byte) (l4 bool, err error) {
	if len(data) < 40 {
		return false, errShort
	}
	length := int(binary.BigEndian.Uint16(data[4:]))
	if data[0]>>4 != 6 || !l.fits(40+length, data) {
		return false, fmt.Errorf("IPv6 header %#02x, length %d of %d bytes", data[0], length, len(data)-40)
	}
	src, dst := netip.AddrFrom16([16]byte(data[8:24])), netip.AddrFrom16([16]byte(data[24:40]))
	proto, payload := data[6], data[40:40+length]
	switch proto {
	case tcp, udp:
		l4 = true
	case ipip:
		if src != l.Tunnel[0] || dst != l.Tunnel[1] {
			return true, fmt.Errorf("a tunnel from %s to %s", src, dst)
		}
		return l.ipv4(payload, false)
	case 0, icmpv6: // hop-by-hop options: MLD
		return false, nil
	default:
		return false, fmt.Errorf("IPv6 next header %d", proto)
	}
	if err := l.packet(l4, src, dst, data[7], 40+length); err != nil {
		return l4, err
	}
	return l4, transport(proto, data[8:40], payload)
}

// fits says whether a packet's length is what there is of it.
func (l look) fits(length int, data []byte) bool {
	return length == len(data) || length < len(data) && l.padded
}

// packet checks addresses, hop limit and length of a packet with TCP or UDP.
func (l look) packet(l4 bool, src, dst netip.Addr, ttl uint8, length int) error {
	switch {
	case !l4:
	case !slices.Contains(l.Src, src) || !slices.Contains(l.Dst, dst):
		return fmt.Errorf("a packet from %s to %s", src, dst)
	case ttl != l.TTL:
		return fmt.Errorf("TTL %d from %s", ttl, src)
	case length > l.MTU:
		return fmt.Errorf("a packet of %d bytes from %s, above the MTU of %d", length, src, l.MTU)
	}
	return nil
}

// transport checks the checksum over pseudo header and payload (RFC 768, 793).
func transport(proto uint8, addrs, payload []byte) error {
	least := map[uint8]int{tcp: 20, udp: 8}[proto]
	switch {
	case least == 0:
		return nil
	case len(payload) < least:
		return errShort
	case proto == udp && int(binary.BigEndian.Uint16(payload[4:])) != len(payload):
		return fmt.Errorf("UDP length %d of %d bytes", binary.BigEndian.Uint16(payload[4:]), len(payload))
	case proto == udp && len(addrs) == 8 && binary.BigEndian.Uint16(payload[6:]) == 0:
		return nil // none
	}
	start := sum(uint32(proto)+uint32(len(payload)), addrs)
	if sum(uint32(start), payload) != 0xffff {
		return fmt.Errorf("wrong checksum of protocol %d", proto)
	}
	return nil
}

// sum is the ones' complement sum over 16-bit words.
func sum(start uint32, b []byte) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		start += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		start += uint32(b[0]) << 8
	}
	for start > 0xffff {
		start = start&0xffff + start>>16
	}
	return uint16(start)
}
