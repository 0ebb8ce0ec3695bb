// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"fastpath/src/packet"
)

// kinds makes a flow of each kind that the engines take, all by port 0.
func (g generator) kinds() (flows []*testFlow, names []string) {
	l2 := []struct {
		name    string
		vlans   []packet.VLAN
		session uint16
	}{
		{"plain", nil, 0},
		{"VLAN", []packet.VLAN{{Type: packet.TypeVLAN, ID: 35}}, 0},
		{"QinQ", []packet.VLAN{{Type: packet.TypeQinQ, ID: 7}, {Type: packet.TypeVLAN, ID: 35}}, 0},
		{"PPPoE", nil, 0x1234},
		{"VLAN, PPPoE", []packet.VLAN{{Type: packet.TypeVLAN, ID: 35}}, 0x1234},
		{"QinQ, PPPoE", []packet.VLAN{{Type: packet.TypeQinQ, ID: 7}, {Type: packet.TypeVLAN, ID: 35}}, 0x1234},
	}
	for _, l := range l2 {
		for _, l3 := range []string{"IPv4", "IPv6", "DS-Lite"} {
			for _, proto := range []uint8{packet.TCP, packet.UDP} {
				f := g.flow()
				f.in = packet.Wire{Peer: g.mac(), Own: g.mac(), VLANs: l.vlans, Session: l.session}
				f.from = packet.Tuple{Proto: proto, Src: g.addrPort(l3 == "IPv6"), Dst: g.addrPort(l3 == "IPv6")}
				f.to = packet.Tuple{Proto: proto, Src: g.addrPort(l3 == "IPv6"), Dst: f.from.Dst}
				f.out = packet.Wire{Peer: g.mac(), Own: g.mac()}
				if l3 == "DS-Lite" {
					f.in = g.tunnelled(f.in)
				} else if l3 == "IPv4" {
					f.out = g.tunnelled(f.out)
				}
				f.mtu = 1400
				flows = append(flows, f)
				names = append(names, fmt.Sprintf("%s, %s, protocol %d", l.name, l3, proto))
			}
		}
	}
	return flows, names
}

// Of each kind: a thousand mutations, every lie about a length near the truth
// and at the ends, and cut off after every byte. What the program does to what
// it forwards, and that it leaves the rest alone, is for check.
func TestHostile(t *testing.T) {
	t.Run("kernel", func(t *testing.T) { testHostile(t, true) })
	t.Run("go", func(t *testing.T) { testHostile(t, false) })
}

func testHostile(t *testing.T, kernel bool) {
	g := newGenerator(t)
	flows, names := g.kinds()
	r := newRig(t, flows, kernel)
	r.enter(0)
	for i, f := range flows {
		forwarded := 0
		for range 1000 {
			if r.check(g.mutate(f, g.frame(f))) == packet.Forward {
				forwarded++
			}
		}
		if forwarded == 0 || forwarded == 1000 {
			t.Errorf("%s: %d of 1000 mutations were forwarded", names[i], forwarded)
		}
		good := g.frame(f)
		for r.check(slices.Clone(good)) != packet.Forward { // longer than the MTU
			good = g.frame(f)
		}
		for n := range len(good) {
			r.check(slices.Clone(good[:n]))
		}
		for _, at := range lengths(f) {
			truth := be(good[at:])
			for _, lie := range []uint16{0, 1, 7, 8, 19, 20, 27, 39, 40, truth - 3, truth - 2, truth - 1, truth + 1, truth + 2, 0x7fff, 0xfffe, 0xffff} {
				liar := slices.Clone(good)
				binary.BigEndian.PutUint16(liar[at:], lie)
				r.check(liar)
			}
		}
	}
}

// lengths are where a frame of f says how long something is: IP, UDP or TCP's
// header, PPPoE, and a tunnel's outer packet.
func lengths(f *testFlow) []int {
	l3 := l3Offset(f.in)
	at := []int{l3 + 2, l3 + 24}
	if f.from.Src.Addr().Is6() {
		at = []int{l3 + 4, l3 + 44}
	}
	if f.from.Proto == packet.TCP {
		at[1] += 8
	}
	outermost := l3
	if f.in.Tunnel != 0 {
		outermost -= 40
		at = append(at, outermost+4)
	}
	if f.in.Session != 0 {
		at = append(at, outermost-4)
	}
	return at
}
