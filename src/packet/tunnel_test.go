// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"slices"
	"testing"
)

// The outer headers of DS-Lite by hand: version, class, flow label; 34 bytes of
// IPv4; hop limit 64; the addresses.
const (
	b4   = "20010db8000100000000000000 0000b4"
	aftr = "20010db8ffff00000000000000 000001"

	outerOut = "60000000 0022 04 40" + b4 + aftr
	outerIn  = "60912345 0022 04 01" + aftr + b4 // ECT(1), a hop limit that has been used up on the way

	plain6      = "020000000001 0a0000000009 86dd"
	vlanPPPoE6  = "020000000001 0a0000000009 8100 0023 8864 1100 1234 004c 0057"
	outDSLite   = "040404040404 060606060606 86dd" + outerOut
	outAllDS    = "040404040404 060606060606 88a8 0007 8100 0023 8864 1100 ffff 004c 0057" + outerOut
	tunnelID    = 7
	outerOffset = 14 // in plain6
)

var (
	addrB4, addrAFTR = netip.MustParseAddr("2001:db8:1::b4"), netip.MustParseAddr("2001:db8:ffff::1")
	testTunnels      = Tunnels{Endpoints{Local: addrB4.As16(), Remote: addrAFTR.As16()}: tunnelID}
)

// tunnelled is w with IPv4 in IPv6.
func tunnelled(w Wire) Wire {
	w.Local, w.Remote, w.Tunnel = addrB4, addrAFTR, tunnelID
	return w
}

func TestParseTunnel(t *testing.T) {
	tests := []struct {
		name  string
		frame []byte
		wire  Wire
		l3    uint8
	}{
		{"plain", unhex(plain6, outerIn, udp4), wirePlain, 54},
		{"padded", append(unhex(plain6, outerIn, udp4), 1, 2, 3), wirePlain, 54},
		{"VLAN, PPPoE", unhex(vlanPPPoE6, outerIn, udp4), wireVLANPPPoE, 66},
	}
	for _, tt := range tests {
		key, err := NewKey(tunnelled(tt.wire), tupleUDP4)
		must(t, err)
		var p Parsed
		r := Parse(tt.frame, &testPort, testTunnels, &p)
		if want := (Layout{L3: tt.l3, Family: 4, Proto: UDP, Len: 34}); r != Forward || p.Key != key || p.Layout != want {
			t.Errorf("%s: %v, %+v; want %+v, %+v", tt.name, r, p, key, want)
		}
	}
}

func TestParseTunnelReasons(t *testing.T) {
	good, pppoe := unhex(plain6, outerIn, udp4), unhex(vlanPPPoE6, outerIn, udp4)
	const o, in = outerOffset, outerOffset + 40
	tests := []struct {
		name  string
		frame []byte
		want  Reason
	}{
		{"good", good, Forward},
		{"congestion met", with(good, o+1, 0xf1), Options},
		{"another AFTR", with(good, o+23, 2), OtherL4},
		{"another B4", with(good, o+39, 0xb5), OtherL4},
		{"the ends exchanged", unhex(plain6, outerOut, udp4), OtherL4},
		{"an encapsulation limit", with(good, o+6, 60), Options},
		{"a fragment", with(good, o+6, 44), Fragment},
		{"IPv6 in IPv6", with(good, o+6, 41, 2), OtherL4},
		{"version 4", with(good, o, 0x40), NotIP},
		{"in the outer header", good[:o+39], Truncated},
		{"in the inner header", with(good, o+5, 19)[:in+19], Truncated},
		{"longer than the frame", with(good, o+5, 35), Length},
		{"shorter than the packet", with(good, o+5, 33), Length},
		{"longer than the packet", append(with(good, o+5, 35), 0), Length},
		{"PPPoE longer", append(with(pppoe, 23, 0x4d), 0), Length},
		{"PPPoE shorter", with(pppoe, 23, 0x4b), Length},
		{"inner fragment", with(good, in+6, 0x20), Fragment},
		{"inner options", with(good, in, 0x46), Options},
		{"inner TTL", with(good, in+8, 1), TTL},
		{"inner ICMP", with(good, in+9, 1), OtherL4},
		{"inner IPv6", with(good, in, 0x60), NotIP},
	}
	for _, tt := range tests {
		if got := Parse(tt.frame, &testPort, testTunnels, &Parsed{}); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := Parse(good, &testPort, nil, &Parsed{}); got != OtherL4 {
		t.Errorf("no tunnel known: %v", got)
	}
}

func TestRewriteTunnel(t *testing.T) {
	plain, out := unhex(plain4, udp4), unhex(outDSLite, udp4NAT)
	const tos, outTOS = 15, 55
	tests := []struct {
		name    string
		frame   []byte
		in, out Wire
		want    []byte
	}{
		{"push", plain, wirePlain, tunnelled(outPlain), out},
		{"push below QinQ and PPPoE", plain, wirePlain, tunnelled(outQinQPPPoE), unhex(outAllDS, udp4NAT)},
		{"pop", unhex(plain6, outerIn, udp4), tunnelled(wirePlain), outPlain, pad(unhex(outPlain4Hex, udp4NAT))},
		{"pop, with VLAN and PPPoE", unhex(vlanPPPoE6, outerIn, udp4), tunnelled(wireVLANPPPoE), outPlain, pad(unhex(outPlain4Hex, udp4NAT))},
		{"ECT(1)", with(plain, tos, 0xfd), wirePlain, tunnelled(outPlain), with(with(out, outTOS, 0xfd), outerOffset+1, 0x10)},
		{"ECT(0)", with(plain, tos, 0xfe), wirePlain, tunnelled(outPlain), with(with(out, outTOS, 0xfe), outerOffset+1, 0x20)},
		{"CE", with(plain, tos, 0x03), wirePlain, tunnelled(outPlain), with(with(out, outTOS, 0x03), outerOffset+1, 0x20)},
	}
	for _, tt := range tests {
		_, a := action(t, tt.in, tt.out, tupleUDP4, tupleUDP4NAT, 1460)
		var p Parsed
		if r := Parse(tt.frame, &testPort, testTunnels, &p); r != Forward {
			t.Fatalf("%s: %v", tt.name, r)
		}
		buf := slices.Concat(make([]byte, Headroom), tt.frame, make([]byte, MinFrame))
		off, n, r := Rewrite(buf, Headroom, len(tt.frame), p.Layout, &a)
		if got := buf[off : off+n]; r != Forward || !bytes.Equal(got, tt.want) {
			t.Errorf("%s: %v\n%swant\n%s", tt.name, r, hex.Dump(got), hex.Dump(tt.want))
		}
	}
}

func TestLoadKey(t *testing.T) {
	k, err := NewKey(tunnelled(wireVLANPPPoE), tupleUDP4)
	must(t, err)
	b := make([]byte, 60)
	for i := range b {
		b[i] = byte(i)
	}
	if got := LoadKey(b); got.SrcPort != [2]byte{0, 1} || got.Dst != [16]byte(b[40:56]) || got == k {
		t.Errorf("loaded %+v", got)
	}
}
