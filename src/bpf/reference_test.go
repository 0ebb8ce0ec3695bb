// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"fastpath/src/packet"
)

// The reference: slow and obvious. It takes a frame apart by reading it from
// front to back, looks for its flow in a list, and builds the frame that has to
// leave from scratch, with full checksums. It shares no code with src/packet,
// only the words of Wire and Tuple.

// testFlow is one direction of a flow in readable parts, and what became of it.
type testFlow struct {
	in, out  packet.Wire
	from, to packet.Tuple
	mtu      uint16
	engine   Engine
	key      packet.Key
	action   packet.Action
	ref      packet.Ref
}

// apart is a frame taken apart.
type apart struct {
	wire   packet.Wire // Port, VLANs, Session, Local, Remote, Tunnel; Peer is the source MAC
	tuple  packet.Tuple
	v6     bool
	ip     []byte     // the header
	l4     []byte     // to the end of the packet, by the IP header's word
	source netip.Addr // of the last IP header, if all of it is there
}

// reader reads a frame from front to back.
type reader struct {
	rest  []byte
	short bool // there was less than asked for
}

func (r *reader) next(n int) []byte {
	if n > len(r.rest) {
		r.short = true
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func be(b []byte) uint16 { return binary.BigEndian.Uint16(b) }

// refParse is what Parse should say.
func refParse(frame []byte, in packet.Port, tunnels []refTunnel) (apart, packet.Reason) {
	a := apart{wire: packet.Wire{Port: in.Slot}}
	r := reader{rest: frame}
	eth := r.next(14)
	switch dst := [6]byte(eth[:6]); {
	case r.short:
		return a, packet.Truncated
	case dst[0]%2 == 1:
		return a, packet.Multicast
	case !slices.Contains(in.MACs[:], dst):
		return a, packet.NotOurs
	}
	a.wire.Peer = [6]byte(eth[6:12])
	typ := be(eth[12:])
	for len(a.wire.VLANs) < 2 && (typ == 0x8100 || typ == 0x88a8) {
		tag := r.next(4)
		if r.short {
			return a, packet.Truncated
		}
		a.wire.VLANs = append(a.wire.VLANs, packet.VLAN{Type: typ, ID: be(tag) % 4096})
		typ = be(tag[2:])
	}
	if typ == 0x8864 {
		h := r.next(6)
		ppp := r.next(2)
		a.wire.Session = be(h[2:])
		size := int(be(h[4:])) // counts ppp
		kind := map[uint16]uint16{0x0021: 0x0800, 0x0057: 0x86dd}[be(ppp)]
		switch {
		case r.short:
			return a, packet.Truncated
		case be(h) != 0x1100 || a.wire.Session == 0 || kind == 0:
			return a, packet.NotIP
		case size > len(r.rest)+2:
			a.source = refSource(kind, r.rest)
			return a, packet.Length
		}
		return refParseIP(a, kind, r, max(size-2, 0), true, tunnels)
	}
	return refParseIP(a, typ, r, len(r.rest), false, tunnels)
}

// refSource is the source address of a packet that b begins with.
func refSource(typ uint16, b []byte) netip.Addr {
	switch {
	case typ == 0x0800 && len(b) >= 20:
		return netip.AddrFrom4([4]byte(b[12:16]))
	case typ == 0x86dd && len(b) >= 40:
		return netip.AddrFrom16([16]byte(b[8:24]))
	}
	return netip.Addr{}
}

// refTunnel is a tunnel in readable parts.
type refTunnel struct {
	id            uint16
	local, remote netip.Addr
}

// refUnwrap takes the outer IPv6 header off that r begins with, if IPv4 is said
// to be behind it.
func refUnwrap(a apart, r reader, limit int, exact bool, tunnels []refTunnel) (apart, reader, int, packet.Reason) {
	h := r.next(40)
	size := int(be(h[4:]))
	src, dst := netip.AddrFrom16([16]byte(h[8:24])), netip.AddrFrom16([16]byte(h[24:40]))
	known := slices.IndexFunc(tunnels, func(t refTunnel) bool { return t.local == dst && t.remote == src })
	switch {
	case h[0]/16 != 6:
		return a, r, 0, packet.NotIP
	case 40+size > limit || exact && 40+size != limit:
		return a, r, 0, packet.Length
	case known < 0:
		return a, r, 0, packet.OtherL4
	case h[1]/16%4 == 3:
		return a, r, 0, packet.Options
	}
	a.wire.Local, a.wire.Remote, a.wire.Tunnel = dst, src, tunnels[known].id
	return a, r, size, packet.Forward
}

// refParseIP continues with the IP packet, which must end within limit bytes, or
// exactly with them.
func refParseIP(a apart, typ uint16, r reader, limit int, exact bool, tunnels []refTunnel) (apart, packet.Reason) {
	a.source = refSource(typ, r.rest)
	if typ == 0x86dd && len(r.rest) >= 40 && r.rest[6] == 4 {
		inner, rest, size, why := refUnwrap(a, r, limit, exact, tunnels)
		if why != packet.Forward {
			return a, why
		}
		a, r, limit, exact, typ = inner, rest, size, true, 0x0800
		a.source = refSource(typ, r.rest)
	}
	a, why := refParsePacket(a, typ, r, limit)
	if (why == packet.Forward || why == packet.Flags) && exact && len(a.ip)+len(a.l4) != limit {
		why = packet.Length
	}
	return a, why
}

func refParsePacket(a apart, typ uint16, r reader, limit int) (apart, packet.Reason) {
	switch typ {
	case 0x0800:
		a.ip = r.next(20)
	case 0x86dd:
		a.ip, a.v6 = r.next(40), true
	default:
		return a, packet.NotIP
	}
	if r.short {
		return a, packet.Truncated
	}
	size, why := refHeader4(a.ip)
	if a.v6 {
		size, why = refHeader6(a.ip)
	}
	switch {
	case why == packet.NotIP:
		return a, why
	case size > limit || size > 0xffff:
		return a, packet.Length
	case why != packet.Forward:
		return a, why
	case size < len(a.ip):
		return a, packet.Length
	}
	a.l4 = r.next(size - len(a.ip))
	return refParseL4(a)
}

// refHeader4 returns the packet's length and what is wrong with the header.
func refHeader4(h []byte) (size int, why packet.Reason) {
	size = int(be(h[2:]))
	ihl := h[0] % 16
	switch {
	case h[0]/16 != 4:
		return size, packet.NotIP
	case ihl < 5:
		return size, packet.Length
	case ihl > 5:
		return size, packet.Options
	case be(h[6:])%0x4000 != 0:
		return size, packet.Fragment
	case h[8] < 2:
		return size, packet.TTL
	case h[9] != 6 && h[9] != 17:
		return size, packet.OtherL4
	}
	return size, packet.Forward
}

func refHeader6(h []byte) (size int, why packet.Reason) {
	size = 40 + int(be(h[4:]))
	extension := map[byte]packet.Reason{0: packet.Options, 43: packet.Options, 60: packet.Options, 44: packet.Fragment}
	switch {
	case h[0]/16 != 6:
		return size, packet.NotIP
	case extension[h[6]] != packet.Forward:
		return size, extension[h[6]]
	case h[7] < 2:
		return size, packet.TTL
	case h[6] != 6 && h[6] != 17:
		return size, packet.OtherL4
	}
	return size, packet.Forward
}

func refParseL4(a apart) (apart, packet.Reason) {
	var src, dst netip.Addr
	if a.v6 {
		a.tuple.Proto = a.ip[6]
		src, dst = netip.AddrFrom16([16]byte(a.ip[8:24])), netip.AddrFrom16([16]byte(a.ip[24:40]))
	} else {
		a.tuple.Proto = a.ip[9]
		src, dst = netip.AddrFrom4([4]byte(a.ip[12:16])), netip.AddrFrom4([4]byte(a.ip[16:20]))
	}
	if a.tuple.Proto == 6 {
		if len(a.l4) < 20 || int(a.l4[12]/16) < 5 || int(a.l4[12]/16)*4 > len(a.l4) {
			return a, packet.Length
		}
		if a.l4[13]%8 != 0 {
			return a, packet.Flags
		}
	} else if len(a.l4) < 8 || be(a.l4[4:]) < 8 || int(be(a.l4[4:])) > len(a.l4) {
		return a, packet.Length
	}
	a.tuple.Src, a.tuple.Dst = netip.AddrPortFrom(src, be(a.l4)), netip.AddrPortFrom(dst, be(a.l4[2:]))
	return a, packet.Forward
}

// refFind looks through the list.
func refFind(flows []*testFlow, a apart) *testFlow {
	for _, f := range flows {
		if f.in.Port == a.wire.Port && f.in.Tunnel == a.wire.Tunnel && slices.Equal(f.in.VLANs, a.wire.VLANs) && f.from == a.tuple &&
			f.in.Session == a.wire.Session && (f.in.Session == 0 || f.in.Peer == a.wire.Peer) {
			return f
		}
	}
	return nil
}

// refRun is what should become of a frame: the reason, the flow if one was
// found, and the frame that leaves.
func refRun(frame []byte, in packet.Port, flows []*testFlow, tunnels []refTunnel) (packet.Reason, *testFlow, []byte) {
	a, r := refParse(frame, in, tunnels)
	if r != packet.Forward {
		return r, nil, nil
	}
	f := refFind(flows, a)
	if f == nil {
		return packet.NoFlow, nil, nil
	}
	if len(a.ip)+len(a.l4) > int(f.mtu) {
		return packet.TooBig, f, nil
	}
	return packet.Forward, f, refBuild(a, f)
}
