// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

var (
	own, router = net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	a4, b4      = netip.MustParseAddr("203.0.113.10"), netip.MustParseAddr("192.168.1.101")
	a6, b6      = netip.MustParseAddr("2001:db8:5::10"), netip.MustParseAddr("2001:db8:1::101")
	near, far   = netip.MustParseAddr("2001:db8:ffff::1"), netip.MustParseAddr("2001:db8:ffff::2")
)

// rules for each kind of line.
func rules(kind string) Rules {
	r := Rules{Own: own, From: []net.HardwareAddr{router}, Src: []netip.Addr{a4, a6}, Dst: []netip.Addr{b4, b6}, TTL: 63, MTU: 1400}
	switch kind {
	case "pppoe":
		r.VLAN, r.Session = 35, func(id uint16) bool { return id == 7 }
	case "tunnel":
		r.Tunnel = [2]netip.Addr{near, far}
	}
	return r
}

// l4 is a TCP or UDP packet with a payload and a good checksum.
func l4(proto uint8, src, dst netip.Addr, payload int) []byte {
	b := make([]byte, map[uint8]int{tcp: 20, udp: 8}[proto]+payload)
	for i := range b {
		b[i] = byte(i*7 + 1)
	}
	at := 6
	if proto == tcp {
		b[12], at = 5<<4, 16
	} else {
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	}
	binary.BigEndian.PutUint16(b[at:], 0)
	c := ^sum(uint32(sum(uint32(proto)+uint32(len(b)), append(src.AsSlice(), dst.AsSlice()...))), b)
	binary.BigEndian.PutUint16(b[at:], c)
	return b
}

func ip4(proto uint8, payload []byte) []byte {
	b := []byte{0x45, 0x10, 0, 0, 1, 2, 0x40, 0, 63, proto, 0, 0}
	b = append(append(b, a4.AsSlice()...), b4.AsSlice()...)
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(b[10:], ^sum(0, b))
	return append(b, payload...)
}

func ip6(proto uint8, src, dst netip.Addr, payload []byte) []byte {
	b := append([]byte{0x60, 0, 0, 0, 0, 0, proto, 63}, append(src.AsSlice(), dst.AsSlice()...)...)
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	return append(b, payload...)
}

func ether(dst net.HardwareAddr, kind uint16, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint16(append(bytes.Clone(dst), router...), kind), payload...)
}

func pppoe(proto uint16, payload []byte) []byte {
	b := []byte{0x11, 0, 0, 7}
	b = binary.BigEndian.AppendUint16(b, uint16(2+len(payload)))
	return ether(own, typeSession, append(binary.BigEndian.AppendUint16(b, proto), payload...))
}

// free are the bytes of a frame that no rule looks at: traffic class and flow
// label of IPv6, and the hop limit of a tunnel.
var good = []struct {
	name, kind string
	frame      []byte
	free       []int
}{
	{"TCP over IPv4", "plain", ether(own, typeIPv4, ip4(tcp, l4(tcp, a4, b4, 30))), nil},
	{"UDP over IPv4", "plain", ether(own, typeIPv4, ip4(udp, l4(udp, a4, b4, 31))), nil},
	{"UDP over IPv6", "plain", ether(own, typeIPv6, ip6(udp, a6, b6, l4(udp, a6, b6, 32))), []int{14, 15, 16, 17}},
	{"UDP over PPPoE", "pppoe", pppoe(pppIPv4, ip4(udp, l4(udp, a4, b4, 33))), nil},
	{"TCP over IPv6 over PPPoE", "pppoe", pppoe(pppIPv6, ip6(tcp, a6, b6, l4(tcp, a6, b6, 34))), []int{22, 23, 24, 25}},
	{"UDP over DS-Lite", "tunnel", ether(own, typeIPv6, ip6(ipip, near, far, ip4(udp, l4(udp, a4, b4, 35)))), []int{14, 15, 16, 17, 21}},
	{"IPv6 beside DS-Lite", "tunnel", ether(own, typeIPv6, ip6(tcp, a6, b6, l4(tcp, a6, b6, 36))), []int{14, 15, 16, 17}},
}

func tag(kind string) uint16 {
	if kind == "pppoe" {
		return 35
	}
	return 0
}

// A good frame is good, and none is with any byte of it changed, cut short,
// longer, or with another tag.
func TestEveryByte(t *testing.T) {
	for _, c := range good {
		r := rules(c.kind)
		if err := r.Check(c.frame, tag(c.kind)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for i := range c.frame {
			for _, flip := range []byte{1, 0x10, 0x80, 0xff} {
				f := bytes.Clone(c.frame)
				f[i] ^= flip
				if r.Check(f, tag(c.kind)) == nil && !slices.Contains(c.free, i) {
					t.Errorf("%s: nobody notices byte %d as %#02x instead of %#02x", c.name, i, f[i], c.frame[i])
				}
			}
			if r.Check(c.frame[:i], tag(c.kind)) == nil {
				t.Errorf("%s: nobody notices that only %d bytes are left", c.name, i)
			}
		}
		if r.Check(append(bytes.Clone(c.frame), 0), tag(c.kind)) == nil || r.Check(c.frame, 36) == nil {
			t.Errorf("%s: nobody notices a byte too many, or another VLAN", c.name)
		}
	}
}

// What has its own reason, and what else a router sends.
func TestCheck(t *testing.T) {
	long := ether(own, typeIPv4, ip4(udp, l4(udp, a4, b4, 1400)))
	late := ip4(udp, l4(udp, a4, b4, 30))
	late[8], late[10] = 62, late[10]+1
	short := append(ether(own, typeIPv4, ip4(udp, l4(udp, a4, b4, 4))), make([]byte, 14)...)
	group := ether(net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, typeARP, make([]byte, 28))
	for _, c := range []struct {
		name, kind string
		frame      []byte
		want       string // "": good
	}{
		{"above the MTU", "plain", long, "above the MTU"},
		{"a hop too many", "plain", ether(own, typeIPv4, late), "TTL 62"},
		{"padded to 60 bytes", "plain", short, ""},
		{"a broadcast of ARP", "plain", group, ""},
		{"PPP control", "pppoe", pppoe(pppLCP, []byte{9, 1, 0, 8, 1, 2, 3, 4}), ""},
		{"PPPoE where there is none", "plain", pppoe(pppIPv4, ip4(udp, l4(udp, a4, b4, 33))), "0x8864"},
		{"no PPPoE where there is", "pppoe", good[1].frame, "0x0800"},
		{"IPv4 outside of the tunnel", "tunnel", good[1].frame, "outside"},
		{"ICMP", "plain", ether(own, typeIPv4, ip4(icmp, make([]byte, 40))), ""},
		{"a protocol that nobody has", "plain", ether(own, typeIPv4, ip4(200, make([]byte, 40))), "protocol 200"},
		{"an Ethernet type that nobody has", "plain", ether(own, 0x1234, make([]byte, 60)), "0x1234"},
	} {
		r := rules(c.kind)
		err := r.Check(c.frame, tag(c.kind))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
