// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"testing"

	"fastpath/src/packet"
)

// unknown is a frame that an engine must not touch, and what the router's kernel
// makes of it: an answer to the left, or the packet forwarded to the right.
type unknown struct {
	name   string
	frames [][]byte
	reason packet.Reason
	answer func([]byte) bool // at the left; nil: forwarded is wanted
	passed func([]byte) bool // at the right
}

// ipv4 matches a plain IPv4 frame of a protocol whose first L4 byte is b.
func ipv4(proto, b byte) func([]byte) bool {
	return func(f []byte) bool { return len(f) > 34 && f[12] == 8 && f[13] == 0 && f[23] == proto && f[34] == b }
}

// masqueraded matches what left by the kernel: its source address, the port as
// it was (or a fragment without one), one hop less.
func masqueraded(ttl byte, flags byte) func([]byte) bool {
	return func(f []byte) bool {
		return len(f) >= 60 && bytes.Equal(f[26:30], []byte{192, 0, 2, 1}) && f[22] == ttl-1 &&
			(f[20]&0x3f|f[21] != 0 || binary.BigEndian.Uint16(f[34:]) == slowPort) && (f[23] != 6 || f[47] == flags)
	}
}

func unknowns(l *lab, known Frame) []unknown {
	with := func(f Frame, change func(*Frame)) [][]byte {
		change(&f)
		return [][]byte{f.Bytes()}
	}
	const syn = 0x02
	arp := append(append(bytes.Repeat([]byte{0xff}, 6), l.left.MAC[:]...), 8, 6, 0, 1, 8, 0, 6, 4, 0, 1)
	arp = append(append(append(arp, l.left.MAC[:]...), 10, 0, 1, 2), 0, 0, 0, 0, 0, 0, 10, 0, 1, 1)
	return []unknown{
		{"ARP", [][]byte{append(arp, make([]byte, 18)...)}, packet.Multicast,
			func(f []byte) bool { return f[12] == 8 && f[13] == 6 && f[21] == 2 && bytes.Equal(f[22:28], l.r0[:]) }, nil},
		{"ICMP echo", with(known, func(f *Frame) { f.Proto, f.To = 1, addr("10.0.1.1:0") }), packet.OtherL4, ipv4(1, 0), nil},
		{"other flow", with(known, func(f *Frame) { f.To = addr("198.51.100.7:5001") }), packet.NoFlow, nil, masqueraded(64, 0)},
		{"SYN of a known flow", with(known, func(f *Frame) { f.Proto, f.Flags = 6, syn }), packet.Flags, nil, masqueraded(64, syn)},
		{"fragments of a known flow", fragments(known), packet.Fragment, nil, masqueraded(64, 0)},
		{"TTL 1", with(known, func(f *Frame) { f.TTL = 1 }), packet.TTL, ipv4(1, 11), nil},
		{"above the output's MTU", with(known, func(f *Frame) { f.Payload, f.Frag = make([]byte, 1400), 0x4000 }), packet.TooBig, ipv4(1, 3), nil},
	}
}

// fragments splits a datagram of f's flow in two.
func fragments(f Frame) [][]byte {
	f.Payload, f.NoCheck, f.ID = make([]byte, 192), true, 77
	whole := f.Bytes()
	part := func(from, to int, flags uint16) []byte {
		b := append([]byte(nil), whole[:34]...)
		binary.BigEndian.PutUint16(b[16:], uint16(20+to-from))
		binary.BigEndian.PutUint16(b[20:], flags|uint16(from/8))
		b[24], b[25] = 0, 0
		binary.BigEndian.PutUint16(b[24:], checksum(b[14:34]))
		return append(b, whole[34+from:34+to]...)
	}
	return [][]byte{part(0, 104, 0x2000), part(104, 200, 0)}
}

// What an engine doesn't know reaches the kernel, which does the right thing.
func TestUnknownTrafficPassesUp(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *lab, engine string) {
		l.router.Run(t, "ip link set r1 mtu 1400")
		known, udp := traffic(l)
		udp.MTU = 1400
		tcp := udp // the same tuple, so that only the flags decide about SYN
		tcp.From.Proto, tcp.To.Proto = 6, 6
		p := l.start(engine, udp, tcp)
		until(l, known, "the known flow", true)
		cases := unknowns(l, known)
		for _, c := range cases {
			send(t, l.left, c.frames...)
			at, match := l.right, c.passed
			if c.answer != nil {
				at, match = l.left, c.answer
			}
			if got := collect(t, at, 1, match); len(got) == 0 {
				t.Errorf("%s: the kernel's answer did not come", c.name)
			}
		}
		st := p.finish()
		for _, c := range cases {
			if got := st.Program[0][c.reason]; got != uint64(len(c.frames)) {
				t.Errorf("%s: counted %d times as %v, want %d", c.name, got, c.reason, len(c.frames))
			}
		}
	})
}
