// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"net/netip"
	"testing"

	"fastpath/src/packet"
	"fastpath/src/state"
)

// TestListed: a connection is listed by the host that asks or by the one that answers,
// whatever NAT has made of them.
func TestListed(t *testing.T) {
	s := &Sync{dropped: []state.DropSet{
		{V4: [][2][4]byte{{{10, 0, 0, 1}, {10, 0, 0, 1}}, {{192, 0, 2, 0}, {192, 0, 2, 255}}, {{255, 0, 0, 0}, {255, 255, 255, 255}}}},
		{V6: [][2][16]byte{{netip.MustParseAddr("2001:db8::").As16(), netip.MustParseAddr("2001:db8::ff").As16()}}},
	}}
	const free = "198.51.100.1"
	for _, tt := range []struct {
		src, dst string // the hosts
		want     bool
	}{
		{free, free, false}, {"10.0.0.1", free, true}, {free, "10.0.0.1", true}, {"10.0.0.0", "10.0.0.2", false},
		{free, "192.0.2.0", true}, {free, "192.0.2.255", true}, {"192.0.1.255", "192.0.3.0", false},
		{"255.255.255.255", free, true}, {"254.255.255.255", free, false},
		{"2001:db8::", "::1", true}, {"::1", "2001:db8::ff", true}, {"2001:db8::100", "::1", false},
	} {
		src, dst := netip.AddrPortFrom(netip.MustParseAddr(tt.src), 1), netip.AddrPortFrom(netip.MustParseAddr(tt.dst), 2)
		own := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.7"), 3) // the router's, listed or not
		c := connection{orig: packet.Tuple{Src: src, Dst: own}, reply: packet.Tuple{Src: dst, Dst: own}}
		if got := s.listed(&c); got != tt.want {
			t.Errorf("%s to %s: listed %v", tt.src, tt.dst, got)
		}
	}
}
