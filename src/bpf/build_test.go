// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"slices"

	"fastpath/src/packet"
)

// refBuild builds what leaves when a belongs to f.
func refBuild(a apart, f *testFlow) []byte {
	ip := slices.Clone(a.ip)
	if a.v6 {
		ip[7]--
	} else {
		ip[8]--
	}
	l4 := slices.Clone(a.l4)
	setTuple(ip, l4, f.to)
	at := checkAt(f.from.Proto)
	if got := be(l4[at:]); got != 0 || f.from.Proto == packet.TCP {
		sum := carry(got, l4Sum(a.ip, a.l4), l4Sum(ip, l4))
		if sum == 0 && f.from.Proto == packet.UDP {
			sum = 0xffff
		}
		binary.BigEndian.PutUint16(l4[at:], sum)
	}
	if !a.v6 {
		binary.BigEndian.PutUint16(ip[10:], carry(be(a.ip[10:]), ipSum(a.ip), ipSum(ip)))
	}
	return wrap(f.out, f.out.Peer, f.out.Own, append(ip, l4...))
}

// wrap puts layer 2 around an IP packet and fills it up to the shortest frame.
func wrap(w packet.Wire, dst, src [6]byte, ip []byte) []byte {
	frame := slices.Concat(dst[:], src[:])
	be := binary.BigEndian
	for _, v := range w.VLANs {
		frame = be.AppendUint16(be.AppendUint16(frame, v.Type), v.ID)
	}
	if w.Local.IsValid() {
		ip = wrapOuter(w, ip)
	}
	v6 := ip[0]>>4 == 6
	typ, ppp := uint16(0x0800), uint16(0x0021)
	if v6 {
		typ, ppp = 0x86dd, 0x0057
	}
	if w.Session != 0 {
		frame = append(be.AppendUint16(frame, 0x8864), 0x11, 0)
		frame = be.AppendUint16(frame, w.Session)
		frame = be.AppendUint16(frame, uint16(len(ip)+2))
		frame = be.AppendUint16(frame, ppp)
	} else {
		frame = be.AppendUint16(frame, typ)
	}
	frame = append(frame, ip...)
	return append(frame, make([]byte, max(60-len(frame), 0))...)
}

// wrapOuter puts an outer IPv6 header in front of an IPv4 packet.
func wrapOuter(w packet.Wire, ip []byte) []byte {
	ecn := ip[1] % 4
	if ecn == 3 {
		ecn = 2
	}
	outer := []byte{0x60, ecn * 16, 0, 0, byte(len(ip) >> 8), byte(len(ip)), 4, 64}
	return slices.Concat(outer, w.Local.AsSlice(), w.Remote.AsSlice(), ip)
}

// setTuple writes addresses and ports.
func setTuple(ip, l4 []byte, t packet.Tuple) {
	addrs := ip[12:20]
	if len(ip) == 40 {
		addrs = ip[8:40]
	}
	copy(addrs, slices.Concat(t.Src.Addr().AsSlice(), t.Dst.Addr().AsSlice()))
	binary.BigEndian.PutUint16(l4, t.Src.Port())
	binary.BigEndian.PutUint16(l4[2:], t.Dst.Port())
}

// checkAt is where the checksum is in a TCP or UDP header.
func checkAt(proto uint8) int {
	if proto == packet.TCP {
		return 16
	}
	return 6
}

// ipSum is the right checksum of an IPv4 header, whatever it says itself.
func ipSum(ip []byte) uint16 {
	ip = slices.Clone(ip)
	ip[10], ip[11] = 0, 0
	return checksum(ip)
}

// l4Sum is the right checksum of a TCP or UDP packet, before UDP's exchange of
// 0 for 0xffff. UDP's covers its own length, TCP's the packet's.
func l4Sum(ip, l4 []byte) uint16 {
	addrs, proto := ip[12:20], ip[9]
	if len(ip) == 40 {
		addrs, proto = ip[8:40], ip[6]
	}
	l4 = slices.Clone(l4)
	if proto == packet.UDP {
		l4 = l4[:be(l4[4:])]
	}
	copy(l4[checkAt(proto):], []byte{0, 0})
	pseudo := slices.Concat(addrs, []byte{0, proto, byte(len(l4) >> 8), byte(len(l4))})
	return checksum(slices.Concat(pseudo, l4))
}

// checksum is the Internet checksum (RFC 1071) of what isn't all zeros.
func checksum(b []byte) uint16 {
	if len(b)%2 == 1 {
		b = append(slices.Clone(b), 0)
	}
	sum := 0
	for i := 0; i < len(b); i += 2 {
		sum += int(be(b[i:]))
	}
	return uint16((65535 - sum%65535) % 65535)
}

// carry is the checksum that has to leave: the right one if the right one came
// in, else one that is as wrong, for the receiver to see.
func carry(got, right, wanted uint16) uint16 {
	return uint16((int(wanted) + int(got) - int(right) + 65535) % 65535)
}
