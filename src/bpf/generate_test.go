// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"

	"fastpath/src/packet"
)

// testSlots is how many ports the generated flows use. The last one has no
// output device.
const testSlots = 4

// generator makes flows and frames.
type generator struct{ *rand.Rand }

func (g generator) one(in int) bool { return g.IntN(in) == 0 }

func (g generator) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

func (g generator) mac() [6]byte {
	m := [6]byte(g.bytes(6))
	m[0] &^= 1
	return m
}

// port is the port in a slot. Its MACs depend on the slot only.
func port(slot uint16) packet.Port {
	p := packet.Port{Slot: slot}
	p.MACs[0] = [6]byte{2, 0xaa, 0, 0, 0, byte(slot)}
	p.MACs[1] = [6]byte{2, 0xbb, 0, 0, 0, byte(slot)}
	return p
}

func (g generator) wire() packet.Wire {
	w := packet.Wire{Port: uint16(g.IntN(testSlots)), Own: g.mac(), Peer: g.mac()}
	for range g.IntN(3) {
		w.VLANs = append(w.VLANs, packet.VLAN{
			Type: []uint16{packet.TypeVLAN, packet.TypeQinQ}[g.IntN(2)],
			ID:   uint16(g.IntN(4096)),
		})
	}
	if g.one(2) {
		w.Session = uint16(1 + g.IntN(0xffff))
	}
	return w
}

// tunnels are those that the generated flows use, and one nobody uses. All have
// one end in common, as those of one router have.
var tunnels = func() (all []refTunnel) {
	for id := range uint16(4) {
		all = append(all, refTunnel{100 + id, netip.MustParseAddr("2001:db8::b4"), netip.AddrFrom16([16]byte{0x20, 1, 15: byte(id)})})
	}
	return all
}()

// tunnelled makes IPv4 in IPv6 of w.
func (g generator) tunnelled(w packet.Wire) packet.Wire {
	t := tunnels[g.IntN(len(tunnels)-1)]
	w.Local, w.Remote, w.Tunnel = t.local, t.remote, t.id
	return w
}

func (g generator) addrPort(v6 bool) netip.AddrPort {
	addr := netip.AddrFrom4([4]byte(g.bytes(4)))
	if v6 {
		addr = netip.AddrFrom16([16]byte(append([]byte{0x20, 0x01}, g.bytes(14)...)))
	}
	return netip.AddrPortFrom(addr, uint16(g.Uint32()))
}

func (g generator) flow() *testFlow {
	v6 := g.one(2)
	f := &testFlow{in: g.wire(), out: g.wire(), mtu: uint16(1500 - 8*g.IntN(2)), engine: EngineXDP}
	f.from = packet.Tuple{Proto: []uint8{packet.TCP, packet.UDP}[g.IntN(2)], Src: g.addrPort(v6), Dst: g.addrPort(v6)}
	f.to = f.from
	if g.one(2) {
		f.to.Src = g.addrPort(v6)
	}
	if g.one(3) {
		f.to.Dst = g.addrPort(v6)
	}
	if g.one(8) {
		f.to.Src = netip.AddrPortFrom(f.to.Src.Addr(), uint16(g.Uint32()))
	}
	if g.one(4) {
		f.mtu = uint16(60 + g.IntN(1000))
	}
	if !v6 && g.one(3) {
		f.in = g.tunnelled(f.in)
	}
	if !v6 && g.one(3) {
		f.out = g.tunnelled(f.out)
	}
	if g.one(2) {
		f.engine = EngineAFXDP
	}
	return f
}

// flows makes n flows and, for each, one that differs in a single thing: port,
// tag, session or concentrator.
func (g generator) flows(n int) []*testFlow {
	var all []*testFlow
	for range n {
		f := g.flow()
		twin := *g.flow()
		twin.in, twin.from, twin.to = f.in, f.from, f.from
		twin.in.VLANs = slices.Clone(f.in.VLANs)
		twin.out.Local, twin.out.Remote, twin.out.Tunnel = f.out.Local, f.out.Remote, f.out.Tunnel
		switch i := g.IntN(4); {
		case i == 0 && len(f.in.VLANs) > 0:
			twin.in.VLANs[0].Type ^= packet.TypeVLAN ^ packet.TypeQinQ
		case i == 1 && f.in.Session != 0:
			twin.in.Session ^= 1 << g.IntN(16)
			if twin.in.Session == 0 {
				twin.in.Session = 0x5555
			}
		case i == 2 && f.in.Session != 0:
			twin.in.Peer[5] ^= 1
		case i == 3 && f.in.Tunnel == tunnels[0].id:
			twin.in.Local, twin.in.Remote, twin.in.Tunnel = tunnels[1].local, tunnels[1].remote, tunnels[1].id
		case i == 3 && f.in.Tunnel != 0:
			twin.in.Local, twin.in.Remote, twin.in.Tunnel = netip.Addr{}, netip.Addr{}, 0
		default:
			twin.in.Port = (f.in.Port + 1) % testSlots
		}
		all = append(all, f, &twin)
	}
	return all
}

// frame is a good frame of f, with padding at times.
func (g generator) frame(f *testFlow) []byte {
	size := g.IntN(64)
	if g.one(4) {
		size = g.IntN(1460)
	}
	dst := port(f.in.Port).MACs[g.IntN(2)]
	src := f.in.Peer
	if f.in.Session == 0 {
		src = g.mac()
	}
	ip := g.packet(f.from, size)
	if g.one(4) { // what leaves has checksum 0, or what comes in
		tune(ip, []packet.Tuple{f.from, f.to}[g.IntN(2)])
	}
	in := f.in
	in.Local, in.Remote = in.Remote, in.Local // it comes from there
	frame := wrap(in, dst, src, ip)
	if g.one(4) {
		frame = frame[:len(frame)-padding(f.in, frame, ip)]
	} else if g.one(4) {
		frame = append(frame, g.bytes(g.IntN(70))...)
	}
	for i, at := 0, 14; i < len(f.in.VLANs); i, at = i+1, at+4 {
		frame[at] |= byte(g.IntN(16)) << 4 // priority
	}
	if f.in.Tunnel != 0 {
		g.outer(frame[l3Offset(f.in)-40:])
	}
	return frame
}

// outer changes what may be anything in an outer header: traffic class but CE,
// flow label, hop limit.
func (g generator) outer(h []byte) {
	copy(h[1:4], g.bytes(3))
	if h[1]>>4&3 == 3 {
		h[1] ^= 0x10
	}
	h[7] = byte(g.IntN(256))
}

// padding is how much of frame is behind ip.
func padding(w packet.Wire, frame, ip []byte) int {
	return len(frame) - l3Offset(w) - len(ip)
}

// l3Offset is where the IP header is, of a tunnel the inner one.
func l3Offset(w packet.Wire) int {
	at := 14 + 4*len(w.VLANs)
	if w.Session != 0 {
		at += 8
	}
	if w.Tunnel != 0 {
		at += 40
	}
	return at
}

// packet is a good IP packet with up to size bytes behind the fixed headers.
func (g generator) packet(t packet.Tuple, size int) []byte {
	l4 := g.bytes(8 + size)
	if t.Proto == packet.TCP {
		l4 = g.bytes(20 + size)
		l4[12] = byte(5+g.IntN(min(size/4, 10)+1)) << 4
		l4[13] &^= 7
	} else {
		n := len(l4)
		if g.one(8) {
			n -= g.IntN(size + 1)
		}
		binary.BigEndian.PutUint16(l4[4:], uint16(n))
	}
	ip := g.bytes(20)
	ttl := byte(2 + g.IntN(254))
	if t.Src.Addr().Is4() {
		ip[0], ip[6], ip[7], ip[8], ip[9] = 0x45, byte(g.IntN(2))<<6, 0, ttl, t.Proto
		binary.BigEndian.PutUint16(ip[2:], uint16(20+len(l4)))
	} else {
		ip = g.bytes(40)
		ip[0], ip[6], ip[7] = 0x60, t.Proto, ttl
		binary.BigEndian.PutUint16(ip[4:], uint16(len(l4)))
	}
	setTuple(ip, l4, t)
	sign(ip, l4)
	if t.Proto == packet.UDP && g.one(6) {
		l4[6], l4[7] = 0, 0
	}
	return append(ip, l4...)
}

// sign sets the checksums.
func sign(ip, l4 []byte) {
	proto := ip[9]
	if len(ip) == 40 {
		proto = ip[6]
	} else {
		binary.BigEndian.PutUint16(ip[10:], ipSum(ip))
	}
	sum := l4Sum(ip, l4)
	if sum == 0 && proto == packet.UDP {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(l4[checkAt(proto):], sum)
}

// tune changes a word that nothing else depends on so that the packet's layer 4
// checksum is 0 when it has tuple t, and signs the packet as it is.
func tune(ip []byte, t packet.Tuple) {
	n := 20
	if ip[0]>>4 == 6 {
		n = 40
	}
	head, l4 := ip[:n], ip[n:]
	word := 4 // TCP: in the sequence number
	if t.Proto == packet.UDP {
		if word = 8; be(l4[4:]) < 10 {
			return
		}
	}
	copyOf := slices.Clone(l4)
	h := slices.Clone(head)
	setTuple(h, copyOf, t)
	sum := int(be(copyOf[word:])) + int(l4Sum(h, copyOf))
	binary.BigEndian.PutUint16(l4[word:], uint16(sum%65535))
	sign(head, l4)
}
