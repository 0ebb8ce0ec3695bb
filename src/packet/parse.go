// SPDX-License-Identifier: Apache-2.0

package packet

import "encoding/binary"

// Parse looks at a frame, from its destination MAC on, that came in by in, or by
// one of the tunnels. It fills p completely if it returns Forward, and says
// otherwise why the frame is not for the fast path. It never changes the frame.
func Parse(frame []byte, in *Port, tunnels Tunnels, p *Parsed) Reason {
	if len(frame) < ethLen {
		return Truncated
	}
	if frame[0]&1 != 0 {
		return Multicast
	}
	if dst := [6]byte(frame[:6]); dst != in.MACs[0] && dst != in.MACs[1] {
		return NotOurs
	}
	*p = Parsed{}
	p.Key.Port = in.Slot
	l3, end, r := p.parseL2(frame)
	if r != Forward {
		return r
	}
	if p.Key.Family == 6 && len(frame) >= l3+ipv6Len && frame[l3+6] == protoIPv4 {
		l3, end, r = p.parseTunnel(frame, l3, end, tunnels)
		if r != Forward {
			return r
		}
	}
	var l4 int
	if p.Key.Family == 4 {
		l4, r = p.parseIPv4(frame, l3, end)
	} else {
		l4, r = p.parseIPv6(frame, l3, end)
	}
	if r != Forward {
		return r
	}
	if p.inner() && l3+int(p.Layout.Len) != end {
		return Length // padding inside PPPoE or a tunnel: see resize in src/bpf/rewrite.h
	}
	p.Layout.L3 = uint8(l3)
	p.Layout.Family = p.Key.Family
	p.Layout.Proto = p.Key.Proto
	return p.parseL4(frame[l4 : l3+int(p.Layout.Len)])
}

// parseL2 returns where the IP header begins and where the packet must have
// ended: the end of the frame or of the PPPoE payload.
func (p *Parsed) parseL2(frame []byte) (l3, end int, r Reason) {
	typ := binary.BigEndian.Uint16(frame[12:])
	l3 = ethLen
	for i := 0; i < len(p.Key.Tags) && (typ == TypeVLAN || typ == TypeQinQ); i++ {
		if len(frame) < l3+vlanLen {
			return 0, 0, Truncated
		}
		tag := &p.Key.Tags[i]
		tag[0], tag[1] = frame[l3]&0x0f|tagged, frame[l3+1]
		if typ == TypeQinQ {
			tag[0] |= tagQinQ
		}
		typ = binary.BigEndian.Uint16(frame[l3+2:])
		l3 += vlanLen
	}
	switch typ {
	case typeIPv4:
		p.Key.Family = 4
	case typeIPv6:
		p.Key.Family = 6
	case typePPPoE:
		return p.parsePPPoE(frame, l3)
	default:
		return 0, 0, NotIP
	}
	return l3, len(frame), Forward
}

// parsePPPoE reads the PPPoE session header at off (RFC 2516 section 4). The
// kernel takes a session's frames from its concentrator only, so its MAC
// belongs to the key.
func (p *Parsed) parsePPPoE(frame []byte, off int) (l3, end int, r Reason) {
	if len(frame) < off+pppoeLen {
		return 0, 0, Truncated
	}
	h := frame[off : off+pppoeLen]
	p.Key.Session = [2]byte(h[2:4])
	p.Key.Peer = [6]byte(frame[6:12])
	if h[0] != 0x11 || h[1] != 0 || p.Key.Session == [2]byte{} {
		return 0, 0, NotIP
	}
	switch binary.BigEndian.Uint16(h[6:]) {
	case pppIPv4:
		p.Key.Family = 4
	case pppIPv6:
		p.Key.Family = 6
	default:
		return 0, 0, NotIP
	}
	end = off + 6 + int(binary.BigEndian.Uint16(h[4:])) // the length counts the PPP protocol
	if end > len(frame) {
		return 0, 0, Length
	}
	return off + pppoeLen, end, Forward
}

// inner: the packet lies within a header with a length of its own.
func (p *Parsed) inner() bool { return p.Key.Session != [2]byte{} || p.Key.Tunnel != 0 }

// parseTunnel reads the outer IPv6 header at off, behind which an IPv4 packet is
// said to be. Its hop limit doesn't matter to who is its destination. A packet
// that met congestion (CE) has to be marked or dropped within (RFC 6040 section
// 4.2): that is for the kernel.
func (p *Parsed) parseTunnel(frame []byte, off, end int, tunnels Tunnels) (l3, inEnd int, r Reason) {
	h := frame[off : off+ipv6Len]
	inEnd = off + ipv6Len + int(binary.BigEndian.Uint16(h[4:]))
	id := tunnels[Endpoints{Local: [16]byte(h[24:40]), Remote: [16]byte(h[8:24])}]
	switch {
	case h[0]>>4 != 6:
		return 0, 0, NotIP
	case inEnd > end || p.inner() && inEnd != end:
		return 0, 0, Length
	case id == 0:
		return 0, 0, OtherL4
	case h[1]>>4&ecnMask == ecnCE:
		return 0, 0, Options
	}
	p.Key.Tunnel = id
	p.Key.Family = 4
	return off + ipv6Len, inEnd, Forward
}

func (p *Parsed) parseIPv4(frame []byte, l3, end int) (l4 int, r Reason) {
	if len(frame) < l3+ipv4Len {
		return 0, Truncated
	}
	h := frame[l3 : l3+ipv4Len]
	n := int(binary.BigEndian.Uint16(h[2:]))
	switch {
	case h[0]>>4 != 4:
		return 0, NotIP
	case h[0]&0x0f < 5 || l3+n > end:
		return 0, Length
	case h[0]&0x0f > 5:
		return 0, Options
	case h[6]&0x3f|h[7] != 0: // MF and the offset
		return 0, Fragment
	case h[8] <= 1:
		return 0, TTL
	case h[9] != TCP && h[9] != UDP:
		return 0, OtherL4
	case n < ipv4Len:
		return 0, Length
	}
	copy(p.Key.Src[:4], h[12:16])
	copy(p.Key.Dst[:4], h[16:20])
	p.Key.Proto = h[9]
	p.Layout.Len = uint16(n)
	return l3 + ipv4Len, Forward
}

func (p *Parsed) parseIPv6(frame []byte, l3, end int) (l4 int, r Reason) {
	if len(frame) < l3+ipv6Len {
		return 0, Truncated
	}
	h := frame[l3 : l3+ipv6Len]
	n := ipv6Len + int(binary.BigEndian.Uint16(h[4:]))
	switch next := h[6]; {
	case h[0]>>4 != 6:
		return 0, NotIP
	case l3+n > end || n > 0xffff:
		return 0, Length
	case next == 44:
		return 0, Fragment
	case next == 0 || next == 43 || next == 60: // hop-by-hop, routing, destination options
		return 0, Options
	case h[7] <= 1:
		return 0, TTL
	case next != TCP && next != UDP:
		return 0, OtherL4
	}
	p.Key.Src = [16]byte(h[8:24])
	p.Key.Dst = [16]byte(h[24:40])
	p.Key.Proto = h[6]
	p.Layout.Len = uint16(n)
	return l3 + ipv6Len, Forward
}

// parseL4 reads the TCP or UDP header that begins with b; b ends with the IP packet.
func (p *Parsed) parseL4(b []byte) Reason {
	if p.Key.Proto == TCP {
		if len(b) < tcpLen {
			return Length
		}
		if n := int(b[12]>>4) * 4; n < tcpLen || n > len(b) {
			return Length
		}
		if b[13]&0x07 != 0 { // FIN, SYN, RST
			return Flags
		}
	} else {
		if len(b) < udpLen {
			return Length
		}
		if n := int(binary.BigEndian.Uint16(b[4:])); n < udpLen || n > len(b) {
			return Length
		}
	}
	p.Key.SrcPort = [2]byte(b[0:2])
	p.Key.DstPort = [2]byte(b[2:4])
	return Forward
}
