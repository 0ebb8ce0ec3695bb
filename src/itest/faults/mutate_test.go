// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/binary"
	"math/rand/v2"

	"fastpath/src/itest/engine"
)

const mutations = 1000 // of each valid frame

// valid are frames of each kind that f's addresses can be in: the plain one,
// and those that are another flow's, no flow's, or nobody's.
func valid(f engine.Frame) [][]byte {
	with := func(change func(*engine.Frame)) []byte {
		g := f
		change(&g)
		return g.Bytes()
	}
	tagged := func(f *engine.Frame) { f.VLANs = []uint16{7} }
	plain := f.Bytes()
	return [][]byte{
		plain,
		with(func(f *engine.Frame) { f.NoCheck = true }),
		with(func(f *engine.Frame) { f.Proto = 6 }),
		with(func(f *engine.Frame) { f.Proto, f.To = 1, f.From }), // an echo request to itself
		with(func(f *engine.Frame) { f.Frag = 0x2000 }),
		with(tagged),
		with(func(f *engine.Frame) { f.VLANs = []uint16{7, 8} }),
		with(func(f *engine.Frame) { f.Session = 9 }),
		with(func(f *engine.Frame) { tagged(f); f.Session = 9 }),
		inIPv6(plain, 4),  // DS-Lite, RFC 6333
		inIPv6(plain, 44), // a fragment header, and nothing that it could be
		arpFrame(1, f.Dst, f.Src, outsider, mac{}, outsider),
	}
}

// inIPv6 puts the packet of an IPv4 frame into an IPv6 packet.
func inIPv6(frame []byte, next byte) []byte {
	b := append(append([]byte(nil), frame[:12]...), 0x86, 0xdd)
	size := len(frame) - 14
	b = append(b, 0x60, 0, 0, 0, byte(size>>8), byte(size), next, 64)
	b = append(append(b, outer1.AsSlice()...), outer2.AsSlice()...)
	return append(b, frame[14:]...)
}

// lengths says where a frame's lengths stand: IPv4's header and total length,
// UDP's length or TCP's header length, IPv6's and PPPoE's payload lengths.
var lengths = []struct{ at, size int }{{14, 1}, {16, 2}, {38, 2}, {46, 1}, {18, 2}, {22, 2}, {58, 2}}

// hostile are the frames that are made of a valid one: cut off at every byte,
// with lengths that lie (and a header checksum that doesn't), and changed at random.
func hostile(rng *rand.Rand, frame []byte) (all [][]byte) {
	for n := 14; n < len(frame); n++ {
		all = append(all, frame[:n])
	}
	for _, l := range lengths {
		for _, lie := range []uint16{0, 1, 7, 19, 20, 27, 28, 0x44, 0x46, 0x4f, 0x50, 0xf0, uint16(len(frame)), 1500, 0x7fff, 0xffff} {
			b := append([]byte(nil), frame...)
			if l.size == 1 {
				b[l.at] = byte(lie)
			} else {
				binary.BigEndian.PutUint16(b[l.at:], lie)
			}
			all = append(all, sealed(b))
		}
	}
	for range mutations {
		b := append([]byte(nil), frame...)
		for range 1 + rng.IntN(4) {
			b[rng.IntN(len(b))] = byte(rng.Uint32())
		}
		if rng.IntN(2) == 0 {
			b = sealed(b)
		}
		all = append(all, b)
	}
	return all
}

// sealed has a right IPv4 header checksum, if it is IPv4 without tags.
func sealed(b []byte) []byte {
	if size := int(b[14]&15) * 4; b[12] == 8 && b[13] == 0 && b[14]>>4 == 4 && size >= 20 && len(b) >= 14+size {
		header := b[14 : 14+size]
		binary.BigEndian.PutUint16(header[10:], 0)
		binary.BigEndian.PutUint16(header[10:], ^onesSum(header))
	}
	return b
}

// carried says whether b is an unfragmented IPv4 packet without options in one
// of the flow f, as far as its addresses go.
func carried(b []byte, f engine.Frame) bool {
	return len(b) >= 42 && b[12] == 8 && b[13] == 0 && b[14] == 0x45 && b[20]&0x3f == 0 && b[21] == 0 && b[23] == f.Proto &&
		string(b[26:30]) == string(f.From.Addr().AsSlice()) && string(b[30:34]) == string(f.To.Addr().AsSlice()) &&
		binary.BigEndian.Uint16(b[34:]) == f.From.Port() && binary.BigEndian.Uint16(b[36:]) == f.To.Port()
}

// forwarded is what a router makes of a packet b of flow in, which leaves as out
// (of the same protocol): what it doesn't change stays, and a checksum that was
// wrong is as wrong as before (RFC 1624), so that the receiver sees it. It ends with
// the IP packet.
func forwarded(b []byte, out engine.Frame) []byte {
	b = append([]byte(nil), b...)
	if size := 14 + int(binary.BigEndian.Uint16(b[16:])); size >= 42 && size < len(b) {
		b = b[:size]
	}
	ttl := append([]byte(nil), b[22:24]...)
	tuple := append([]byte(nil), b[26:38]...)
	copy(b, out.Dst[:])
	copy(b[6:], out.Src[:])
	b[22]--
	copy(b[26:], out.From.Addr().AsSlice())
	copy(b[30:], out.To.Addr().AsSlice())
	binary.BigEndian.PutUint16(b[34:], out.From.Port())
	binary.BigEndian.PutUint16(b[36:], out.To.Port())
	adjust(b[24:], append(ttl, tuple[:8]...), append(append([]byte(nil), b[22:24]...), b[26:34]...))
	at := 40 // UDP's checksum
	if out.Proto == 6 {
		at = 50
	}
	if none := b[at] == 0 && b[at+1] == 0; !none || out.Proto == 6 {
		adjust(b[at:], tuple, b[26:38])
		if b[at] == 0 && b[at+1] == 0 && out.Proto == 17 {
			b[at], b[at+1] = 0xff, 0xff
		}
	}
	return b
}

// adjust changes a checksum as the data below it has changed (RFC 1624 equation 3).
func adjust(sum, before, after []byte) {
	total := uint32(^binary.BigEndian.Uint16(sum)) + uint32(^onesSum(before)) + uint32(onesSum(after))
	for total > 0xffff {
		total = total&0xffff + total>>16
	}
	binary.BigEndian.PutUint16(sum, ^uint16(total))
}
