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
	head := headLen(l)
	l2, size, l3 := int(a.L2Len), int(l.Len), off+int(l.L3)
	off2 = l3 - l2
	n2 = max(l2+size, MinFrame)
	switch {
	case size > int(a.MTU):
		return off, n, TooBig
	case size < head || size > off+n-l3:
		return off, n, Length
	case l2 < ethLen || l2 > MaxL2 || off2 < 0 || off2+n2 > len(buf):
		return off, n, NoRoom
	}
	rewriteIP(buf[l3:l3+head], l, a)
	copy(buf[off2:l3], a.L2[:l2])
	if a.PPPoE != 0 {
		binary.BigEndian.PutUint16(buf[l3-4:], uint16(size+2)) // the PPP protocol counts
	}
	clear(buf[l3+size : off2+n2])
	return off2, n2, Forward
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
	var l4 []byte
	if l.Family == 4 {
		b[8]--
		adjust(b[10:12], a.L3Diff)
		copy(b[12:16], a.Src[:4])
		copy(b[16:20], a.Dst[:4])
		l4 = b[ipv4Len:]
	} else {
		b[7]--
		copy(b[8:24], a.Src[:])
		copy(b[24:40], a.Dst[:])
		l4 = b[ipv6Len:]
	}
	copy(l4[0:2], a.SrcPort[:])
	copy(l4[2:4], a.DstPort[:])
	if l.Proto == TCP {
		adjust(l4[16:18], a.L4Diff)
		return
	}
	check := l4[6:8]
	if check[0]|check[1] == 0 {
		return // the sender made none (RFC 768)
	}
	adjust(check, a.L4Diff)
	if check[0]|check[1] == 0 {
		check[0], check[1] = 0xff, 0xff
	}
}

// adjust adds diff to a checksum (RFC 1624, equation 3). diff is never 0 (see
// NewAction), so the result is never 0xffff, as if it had been made anew.
func adjust(check []byte, diff [2]byte) {
	sum := uint32(^binary.BigEndian.Uint16(check)) + uint32(binary.BigEndian.Uint16(diff[:]))
	binary.BigEndian.PutUint16(check, ^uint16(sum+sum>>16))
}
