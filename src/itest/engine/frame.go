// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"net/netip"
)

// Frame is what a frame says. Bytes makes it from scratch, with full checksums:
// it shares no code with src/packet.
type Frame struct {
	Dst, Src [6]byte
	VLANs    []uint16      // 802.1Q, the outer one first
	QinQ     bool          // the outer one is 802.1ad
	Session  uint16        // PPPoE; 0: none
	Outer    [2]netip.Addr // source and destination of the IPv6 header around an IPv4 packet (RFC 2473), if any
	From, To netip.AddrPort
	Proto    uint8 // 6: TCP (ACK), 17: UDP, 1: ICMP echo request
	Flags    uint8 // TCP's, instead of ACK
	TTL      uint8
	Frag     uint16 // IPv4 flags and fragment offset
	ID       uint16 // IPv4
	NoCheck  bool   // UDP over IPv4 without a checksum
	Payload  []byte
}

// Bytes is the frame, padded to 60 bytes.
func (f Frame) Bytes() []byte {
	b := append(append([]byte(nil), f.Dst[:]...), f.Src[:]...)
	for i, id := range f.VLANs {
		typ := uint16(0x8100)
		if i == 0 && f.QinQ {
			typ = 0x88a8
		}
		b = binary.BigEndian.AppendUint16(b, typ)
		b = binary.BigEndian.AppendUint16(b, id)
	}
	ip, v4 := f.ip(), f.From.Addr().Is4()
	if f.Outer[0].IsValid() {
		ip, v4 = append(f.outer(len(ip)), ip...), false
	}
	switch {
	case f.Session != 0 && v4:
		b = append(b, f.pppoe(0x0021, len(ip))...)
	case f.Session != 0:
		b = append(b, f.pppoe(0x0057, len(ip))...)
	case v4:
		b = append(b, 0x08, 0x00)
	default:
		b = append(b, 0x86, 0xdd)
	}
	b = append(b, ip...)
	for len(b) < 60 {
		b = append(b, 0)
	}
	return b
}

// outer is the IPv6 header around size bytes of IPv4, as a router makes it for a
// packet without ECN.
func (f Frame) outer(size int) []byte {
	h := []byte{0x60, 0, 0, 0, byte(size >> 8), byte(size), 4, 64}
	return append(append(h, f.Outer[0].AsSlice()...), f.Outer[1].AsSlice()...)
}

// pppoe is the EtherType, the header of RFC 2516 and the PPP protocol.
func (f Frame) pppoe(protocol uint16, size int) []byte {
	b := []byte{0x88, 0x64, 0x11, 0}
	b = binary.BigEndian.AppendUint16(b, f.Session)
	b = binary.BigEndian.AppendUint16(b, uint16(size+2))
	return binary.BigEndian.AppendUint16(b, protocol)
}

func (f Frame) ip() []byte {
	l4 := f.l4()
	src, dst := f.From.Addr().AsSlice(), f.To.Addr().AsSlice()
	if f.From.Addr().Is6() {
		h := []byte{0x60, 0, 0, 0, byte(len(l4) >> 8), byte(len(l4)), f.Proto, f.TTL}
		return append(append(append(h, src...), dst...), l4...)
	}
	h := []byte{0x45, 0, 0, 0, byte(f.ID >> 8), byte(f.ID), byte(f.Frag >> 8), byte(f.Frag), f.TTL, f.Proto, 0, 0}
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(l4)))
	h = append(append(h, src...), dst...)
	binary.BigEndian.PutUint16(h[10:], checksum(h))
	return append(h, l4...)
}

// l4 is the TCP, UDP or ICMP header and the payload.
func (f Frame) l4() []byte {
	var h []byte
	at := 0 // where the checksum stands
	switch f.Proto {
	case 1:
		h, at = []byte{8, 0, 0, 0, 0, 7, 0, 1}, 2
	case 6:
		h, at = make([]byte, 20), 16
		binary.BigEndian.PutUint32(h[4:], 1000)
		binary.BigEndian.PutUint32(h[8:], 2000)
		h[12], h[13], h[14] = 0x50, 0x10, 0x20
		if f.Flags != 0 {
			h[13] = f.Flags
		}
	default:
		h, at = make([]byte, 8), 6
		binary.BigEndian.PutUint16(h[4:], uint16(8+len(f.Payload)))
	}
	var pseudo []byte
	if f.Proto != 1 {
		binary.BigEndian.PutUint16(h, f.From.Port())
		binary.BigEndian.PutUint16(h[2:], f.To.Port())
		pseudo = append(f.From.Addr().AsSlice(), f.To.Addr().AsSlice()...)
		pseudo = append(pseudo, 0, f.Proto, byte((len(h)+len(f.Payload))>>8), byte(len(h)+len(f.Payload)))
	}
	h = append(h, f.Payload...)
	if f.Proto == 17 && f.NoCheck {
		return h
	}
	sum := checksum(append(pseudo, h...))
	if sum == 0 && f.Proto == 17 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(h[at:], sum)
	return h
}

// checksum is the Internet checksum (RFC 1071), done the slow way.
func checksum(b []byte) uint16 {
	sum := uint64(0)
	for i, v := range b {
		if i%2 == 0 {
			sum += uint64(v) << 8
		} else {
			sum += uint64(v)
		}
	}
	for sum > 0xffff {
		sum = sum%0x10000 + sum/0x10000
	}
	return ^uint16(sum)
}
