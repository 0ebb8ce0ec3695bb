// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"bytes"
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name   string
		frame  []byte
		wire   Wire
		tuple  Tuple
		layout Layout
	}{
		{"plain", unhex(plain4, udp4), wirePlain, tupleUDP4, Layout{L3: 14, Family: 4, Proto: UDP, Len: 34}},
		{"padded", append(unhex(plain4, udp4), make([]byte, 12)...), wirePlain, tupleUDP4,
			Layout{L3: 14, Family: 4, Proto: UDP, Len: 34}},
		{"the bridge's MAC", unhex(vlan6, tcp6), wireVLAN, tupleTCP6, Layout{L3: 18, Family: 6, Proto: TCP, Len: 66}},
		{"VLAN, PPPoE", unhex(vlanPPPoE4, udp4), wireVLANPPPoE, tupleUDP4,
			Layout{L3: 26, Family: 4, Proto: UDP, Len: 34}},
		{"padded behind PPPoE", append(unhex(vlanPPPoE4, udp4), 1, 2, 3), wireVLANPPPoE, tupleUDP4,
			Layout{L3: 26, Family: 4, Proto: UDP, Len: 34}},
		{"QinQ, PPPoE", unhex(qinqPPPoE6, tcp6), wireQinQPPPoE, tupleTCP6,
			Layout{L3: 30, Family: 6, Proto: TCP, Len: 66}},
	}
	for _, tt := range tests {
		before := slices.Clone(tt.frame)
		key, err := NewKey(tt.wire, tt.tuple)
		must(t, err)
		var p Parsed
		if r := Parse(tt.frame, &testPort, nil, &p); r != Forward || p.Key != key || p.Layout != tt.layout {
			t.Errorf("%s: %v, %+v; want %+v, %+v", tt.name, r, p, key, tt.layout)
		}
		if !bytes.Equal(tt.frame, before) {
			t.Errorf("%s: the frame was changed", tt.name)
		}
	}
}

// What the table below damages.
var (
	u  = unhex(plain4, udp4)
	tc = unhex(vlan6, tcp6)
	pp = unhex(vlanPPPoE4, udp4)
)

var reasonTests = []struct {
	name  string
	frame []byte
	want  Reason
}{
	{"empty", nil, Truncated},
	{"in Ethernet", u[:13], Truncated},
	{"in the tag", tc[:17], Truncated},
	{"in PPPoE", pp[:25], Truncated},
	{"in IPv4", u[:33], Truncated},
	{"in IPv6", tc[:57], Truncated},
	{"in UDP", u[:40], Length},
	{"in the data", tc[:len(tc)-1], Length},
	{"broadcast", with(u, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), Multicast},
	{"multicast", with(u, 0, 1, 0, 0x5e), Multicast},
	{"somebody else's", with(u, 5, 3), NotOurs},
	{"ARP", with(u, 12, 8, 6), NotIP},
	{"802.3 length", with(u, 12, 0, 46), NotIP},
	{"third tag", unhex("020000000001 0a0000000009 8100 0001 8100 0002 8100 0003 0800", udp4), NotIP},
	{"PPPoE discovery", with(pp, 16, 0x88, 0x63), NotIP},
	{"PPPoE version 2", with(pp, 18, 0x21), NotIP},
	{"PPPoE code", with(pp, 19, 0xa7), NotIP},
	{"PPPoE without session", with(pp, 20, 0, 0), NotIP},
	{"PPPoE longer than the frame", with(pp, 22, 0, 0x25), Length},
	{"PPPoE shorter than IP", with(pp, 22, 0, 0x23), Length},
	{"PPPoE longer than IP", append(with(pp, 22, 0, 0x25), 0), Length},
	{"PPPoE of length 0", with(pp, 22, 0, 0), Length},
	{"LCP", with(pp, 24, 0xc0, 0x21), NotIP},
	{"compressed protocol field", with(pp, 24, 0x21, 0x45), NotIP},
	{"IPv4 that says 6", with(u, 14, 0x65), NotIP},
	{"IPv6 that says 4", with(tc, 18, 0x40), NotIP},
	{"header of 16 bytes", with(u, 14, 0x44), Length},
	{"IPv4 options", with(u, 14, 0x46), Options},
	{"IPv4 longer than the frame", with(u, 16, 0, 35), Length},
	{"IPv4 shorter than its header", with(u, 16, 0, 19), Length},
	{"IPv4 shorter than UDP", with(u, 16, 0, 27), Length},
	{"first fragment", with(u, 20, 0x20, 0), Fragment},
	{"last fragment", with(u, 20, 0, 1), Fragment},
	{"reserved bit and don't fragment", with(u, 20, 0xc0, 0), Forward},
	{"TTL 1", with(u, 22, 1), TTL},
	{"TTL 0", with(u, 22, 0), TTL},
	{"TTL 2", with(u, 22, 2), Forward},
	{"ICMP", with(u, 23, 1), OtherL4},
	{"UDP longer than IP", with(u, 38, 0, 15), Length},
	{"UDP of 7 bytes", with(u, 38, 0, 7), Length},
	{"UDP shorter than IP", with(u, 38, 0, 8), Forward},
	{"IPv6 longer than the frame", with(tc, 22, 0, 0x1b), Length},
	{"IPv6 shorter than TCP", with(tc, 22, 0, 0x13), Length},
	{"jumbogram", with(tc, 22, 0, 0), Length},
	{"hop-by-hop", with(tc, 24, 0), Options},
	{"routing header", with(tc, 24, 43), Options},
	{"destination options", with(tc, 24, 60), Options},
	{"IPv6 fragment", with(tc, 24, 44), Fragment},
	{"ESP", with(tc, 24, 50), OtherL4},
	{"hop limit 1", with(tc, 25, 1), TTL},
	{"TCP header of 16", with(tc, 70, 0x40), Length},
	{"TCP header beyond the packet", with(tc, 70, 0x70), Length},
	{"TCP options", with(tc, 70, 0x60), Forward},
	{"FIN", with(tc, 71, 0x11), Flags},
	{"SYN", with(tc, 71, 0x02), Flags},
	{"RST", with(tc, 71, 0x04), Flags},
	{"URG PSH ACK ECE CWR", with(tc, 71, 0xf8), Forward},
}

func TestParseReasons(t *testing.T) {
	for _, tt := range reasonTests {
		if got := Parse(tt.frame, &testPort, nil, &Parsed{}); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What comes by another port, VLAN, session or concentrator has another key.
func TestKeysDiffer(t *testing.T) {
	frame := unhex(vlanPPPoE4, udp4)
	keys := map[Key]string{}
	add := func(name string, frame []byte, in Port) {
		var p Parsed
		if r := Parse(frame, &in, testTunnels, &p); r != Forward {
			t.Errorf("%s: %v", name, r)
		}
		if other, ok := keys[p.Key]; ok {
			t.Errorf("%s and %s have the same key", name, other)
		}
		keys[p.Key] = name
	}
	add("the flow", frame, testPort)
	add("another port", frame, Port{MACs: testPort.MACs, Slot: 4})
	add("another VLAN", with(frame, 15, 0x24), testPort)
	add("a service VLAN", with(frame, 12, 0x88, 0xa8), testPort)
	add("another session", with(frame, 21, 0x35), testPort)
	add("another concentrator", with(frame, 11, 8), testPort)
	add("without PPPoE", unhex("020000000001 0a0000000009 8100 0023 0800", udp4), testPort)
	add("priority tag", unhex("020000000001 0a0000000009 8100 0000 0800", udp4), testPort)
	add("without a tag", unhex(plain4, udp4), testPort)
	add("another tag inside", unhex("020000000001 0a0000000009 8100 0023 8100 0000 0800", udp4), testPort)
	add("a tunnel", unhex(vlanPPPoE6, outerIn, udp4), testPort)
	add("a tunnel without PPPoE", unhex(plain6, outerIn, udp4), testPort)
	add("another source port", with(frame, 47, 1), testPort)

	var p, q Parsed
	Parse(frame, &testPort, nil, &p)
	if Parse(with(frame, 14, 0xe0), &testPort, nil, &q); p != q {
		t.Error("the VLAN priority changes the key")
	}
	Parse(unhex(plain4, udp4), &testPort, nil, &p)
	if Parse(with(unhex(plain4, udp4), 6, 0x0e), &testPort, nil, &q); p != q {
		t.Error("without PPPoE, the source MAC changes the key")
	}
}

func TestReasonNames(t *testing.T) {
	names := map[string]Reason{}
	for r := range NumReasons {
		if other, ok := names[r.String()]; ok || r.String() == "" {
			t.Errorf("reasons %d and %d: %q", r, other, r)
		}
		names[r.String()] = r
	}
	if s := NumReasons.String(); s != "unknown" {
		t.Errorf("beyond the last: %q", s)
	}
}
