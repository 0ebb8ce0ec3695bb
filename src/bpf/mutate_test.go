// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"slices"

	"fastpath/src/packet"
)

// mutate damages a good frame of f in up to three places.
func (g generator) mutate(f *testFlow, frame []byte) []byte {
	for range 1 + g.IntN(3) {
		switch g.IntN(6) {
		case 0:
			frame[g.IntN(min(len(frame), 130))] ^= 1 << g.IntN(8)
		case 1:
			frame[g.IntN(min(len(frame), 130))] = byte(g.Uint32())
		case 2:
			frame = frame[:14+g.IntN(len(frame)-13)]
		case 3:
			frame = g.mutateL2(f, frame)
		case 4:
			if f.in.Tunnel != 0 {
				g.mutateOuter(frame, l3Offset(f.in)-40)
			}
		default:
			g.mutateIP(f, frame)
		}
	}
	return frame
}

// set writes b at frame[at:], as far as the frame goes.
func set(frame []byte, at int, b ...byte) {
	if at < len(frame) {
		copy(frame[at:], b)
	}
}

// add adds a small number to the 16 bits at frame[at:].
func (g generator) add(frame []byte, at int) {
	if at+2 <= len(frame) {
		binary.BigEndian.PutUint16(frame[at:], be(frame[at:])+uint16(g.IntN(9))-4)
	}
}

func (g generator) mutateL2(f *testFlow, frame []byte) []byte {
	typ := 12 + 4*len(f.in.VLANs)
	switch g.IntN(10) {
	case 0:
		set(frame, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	case 1:
		mac := g.mac()
		set(frame, 0, mac[:]...)
	case 2: // the other ports' MACs
		mac := port(uint16(g.IntN(testSlots))).MACs[g.IntN(2)]
		set(frame, 0, mac[:]...)
	case 3:
		mac := g.mac()
		set(frame, 6, mac[:]...)
	case 4: // one more tag
		return slices.Insert(frame, 12, 0x81, 0, byte(g.IntN(256)), byte(g.IntN(256)))
	case 5: // one less
		if len(f.in.VLANs) > 0 && len(frame) >= 18 {
			return slices.Delete(frame, 12, 16)
		}
	case 6:
		kinds := []uint16{0x0800, 0x86dd, 0x8100, 0x88a8, 0x8864, 0x8863, 0x0806, 0x9100, 46}
		kind := kinds[g.IntN(len(kinds))]
		set(frame, typ, byte(kind>>8), byte(kind))
	case 7: // another session, or none
		set(frame, typ+4, byte(g.IntN(2)), byte(g.IntN(2)))
	case 8: // PPPoE's length, or else IPv4's identification
		g.add(frame, typ+6)
	case 9:
		kinds := [][]byte{{0, 0x21}, {0, 0x57}, {0xc0, 0x21}, {0x21, 0}, {0, 0xfd}}
		set(frame, typ+8, kinds[g.IntN(len(kinds))]...)
	}
	return frame
}

// mutateOuter damages a tunnel's header.
func (g generator) mutateOuter(frame []byte, at int) {
	switch g.IntN(7) {
	case 0:
		set(frame, at, byte(g.IntN(16))<<4)
	case 1:
		set(frame, at+1, 0x30) // CE
	case 2:
		g.add(frame, at+4)
	case 3:
		set(frame, at+6, []byte{0, 4, 6, 17, 41, 43, 44, 60}[g.IntN(8)])
	case 4: // another tunnel
		addr := tunnels[g.IntN(len(tunnels))].remote.As16()
		set(frame, at+8, addr[:]...)
	case 5:
		set(frame, at+24+g.IntN(16), byte(g.Uint32()))
	case 6: // as if it came from here
		addr := tunnels[0].local.As16()
		set(frame, at+8, addr[:]...)
	}
}

func (g generator) mutateIP(f *testFlow, frame []byte) {
	l3 := l3Offset(f.in)
	at := func(v4, v6 int) int { // in an IPv4 or an IPv6 header
		if f.from.Src.Addr().Is4() {
			return l3 + v4
		}
		return l3 + v6
	}
	switch g.IntN(10) {
	case 0:
		set(frame, l3, byte(g.IntN(16))<<4|5)
	case 1:
		set(frame, l3, 0x40|byte(g.IntN(16)))
	case 2: // total length, payload length
		g.add(frame, at(2, 4))
	case 3:
		set(frame, at(2, 4), byte(g.IntN(3)), byte(g.IntN(64)))
	case 4: // a fragment, or extension headers
		set(frame, at(6, 6), []byte{0x20, 0, 43, 44, 51, 60, 0x80}[g.IntN(7)])
	case 5:
		set(frame, at(8, 7), byte(g.IntN(3)))
	case 6:
		set(frame, at(9, 6), []byte{1, 6, 17, 47, 50, 58, 132, 136}[g.IntN(8)])
	case 7: // TCP's flags
		set(frame, at(20, 40)+13, 1<<g.IntN(8))
	case 8: // TCP's data offset
		set(frame, at(20, 40)+12, byte(g.IntN(16))<<4)
	case 9:
		l4 := at(20, 40)
		if f.from.Proto == packet.UDP {
			g.add(frame, l4+4)
		} else {
			set(frame, l4+16, byte(0xff*g.IntN(2)), byte(0xff*g.IntN(2)))
		}
	}
}
