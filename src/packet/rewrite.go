// SPDX-License-Identifier: Apache-2.0

package packet

import "encoding/binary"

// Rewrite executes a on the frame buf[off:off+n], whose layout is l, in place.
// The new frame is buf[off2:off2+n2]. Padding behind the IP packet is cut off,
// and a frame shorter than MinFrame is filled up with zeros. If the reason is
// not Forward, nothing was changed.
//
// The frame may grow by Headroom bytes to the front, and, when it is short, up
// to MinFrame to the back.
func Rewrite(buf []byte, off, n int, l Layout, a *Action) (off2, n2 int, r Reason) {
	l2, size, l3 := int(a.L2Len), int(l.Len), off+int(l.L3)
	off2 = l3 - l2
	n2 = max(l2+size, MinFrame)
	switch {
	case size > int(a.MTU):
		return off, n, TooBig
	case size < headLen(l) || size > off+n-l3:
		return off, n, Length
	case l2 < ethLen || l2 > MaxL2 || off2 < 0 || off2+n2 > len(buf):
		return off, n, NoRoom
	}
	frame := buf[off2 : off2+n2]
	if l2+size < n2 {
		clear(frame[l2+size:])
	}
	rewriteIP(frame[l2:], l, a)
	writeL2(frame, size, a)
	return off2, n2, Forward
}

// writeL2 writes what is in front of the packet of size bytes in frame. All
// copies are of fixed size.
func writeL2(frame []byte, size int, a *Action) {
	l2 := int(a.L2Len)
	if a.Encap&encapTunnel != 0 {
		l2 -= ipv6Len
		outer := (*[ipv6Len + ipv4Len]byte)(frame[l2:])
		*(*[ipv6Len]byte)(outer[:]) = [ipv6Len]byte(a.L2[l2:])
		setOuter((*[ipv6Len]byte)(outer[:]), size, outer[ipv6Len+1])
		size += ipv6Len
	}
	*(*[ethLen]byte)(frame) = [ethLen]byte(a.L2[:])
	if l2 <= ethLen {
		return
	}
	const tags = 2*vlanLen + pppoeLen // at most
	last := (*[tags]byte)(frame[l2-tags:])
	*last = [tags]byte(a.L2[l2-tags:])
	if a.Encap&encapPPPoE != 0 {
		binary.BigEndian.PutUint16(last[tags-4:], uint16(size+2)) // the PPP protocol counts
	}
}

// setOuter sets what is each packet's own in the outer header h of a packet of
// size bytes whose TOS is tos. ECN goes out as RFC 6040 section 4.1 (compatibility
// mode) and the kernel's INET_ECN_encapsulate have it: CE becomes ECT(0).
func setOuter(h *[ipv6Len]byte, size int, tos uint8) {
	ecn := tos & ecnMask
	if ecn == ecnCE {
		ecn = ecnECT0
	}
	h[1] |= ecn << 4
	binary.BigEndian.PutUint16(h[4:], uint16(size))
}

// headLen is how much of the packet Rewrite touches.
func headLen(l Layout) int {
	n := ipv4Len
	if l.Family == 6 {
		n = ipv6Len
	}
	if l.Proto == TCP {
		return n + tcpLen
	}
	return n + udpLen
}

// rewriteIP sets addresses, ports, TTL and checksums of the packet whose
// headers are b.
func rewriteIP(b []byte, l Layout, a *Action) {
	if l.Family == 4 {
		b[8]--
		adjust((*[2]byte)(b[10:]), a.L3Diff)
		*(*[4]byte)(b[12:]) = [4]byte(a.Src[:])
		*(*[4]byte)(b[16:]) = [4]byte(a.Dst[:])
		b = b[ipv4Len:]
	} else {
		b[7]--
		*(*[16]byte)(b[8:]) = a.Src
		*(*[16]byte)(b[24:]) = a.Dst
		b = b[ipv6Len:]
	}
	*(*[2]byte)(b) = a.SrcPort
	*(*[2]byte)(b[2:]) = a.DstPort
	if l.Proto == TCP {
		adjust((*[2]byte)(b[16:]), a.L4Diff)
		return
	}
	check := (*[2]byte)(b[6:])
	if *check == [2]byte{} {
		return // the sender made none (RFC 768)
	}
	if adjust(check, a.L4Diff) == 0 {
		*check = [2]byte{0xff, 0xff}
	}
}

// adjust adds diff to a checksum (RFC 1624, equation 3) and returns it in the
// machine's byte order, which doesn't matter to the sum (RFC 1071). diff is never
// 0 (see NewAction), so the result is never 0xffff, as if it had been made anew.
func adjust(check *[2]byte, diff [2]byte) uint16 {
	ne := binary.NativeEndian
	sum := uint32(^ne.Uint16(check[:])) + uint32(ne.Uint16(diff[:]))
	n := ^uint16(sum + sum>>16)
	ne.PutUint16(check[:], n)
	return n
}
