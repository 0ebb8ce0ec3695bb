// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
)

func TestSpecErrors(t *testing.T) {
	bad := func(w Wire, tu Tuple) error { _, err := NewKey(w, tu); return err }
	badAction := func(w Wire, tu Tuple) error {
		k, err := NewKey(wirePlain, tupleUDP4)
		must(t, err)
		_, err = NewAction(k, w, tu, 1500)
		return err
	}
	mapped := tupleUDP4
	mapped.Src = netip.MustParseAddrPort("[::ffff:1.2.3.4]:1")
	mixed := tupleUDP4
	mixed.Dst = tupleTCP6.Dst
	tests := []struct {
		err  error
		want string
	}{
		{bad(wirePlain, Tuple{Proto: 1, Src: tupleUDP4.Src, Dst: tupleUDP4.Dst}), "protocol 1"},
		{bad(wirePlain, Tuple{Proto: UDP, Src: tupleUDP4.Src}), "not two addresses of one family"},
		{bad(wirePlain, mixed), "not two addresses of one family"},
		{bad(wirePlain, mapped), "not two addresses of one family"},
		{bad(Wire{VLANs: make([]VLAN, 3)}, tupleUDP4), "3 VLAN tags"},
		{bad(Wire{VLANs: []VLAN{{0x9100, 1}}}, tupleUDP4), "0x9100"},
		{bad(Wire{VLANs: []VLAN{{TypeVLAN, 4096}}}, tupleUDP4), "4096"},
		{bad(Wire{Local: addrB4, Tunnel: 1}, tupleUDP4), "not the two IPv6 addresses"},
		{bad(Wire{Local: addrB4, Remote: netip.MustParseAddr("192.0.2.1"), Tunnel: 1}, tupleUDP4), "not the two IPv6 addresses"},
		{bad(Wire{Local: addrB4, Remote: addrAFTR}, tupleUDP4), "has no id"},
		{bad(Wire{Tunnel: 1}, tupleUDP4), "tunnel 1 has no addresses"},
		{bad(tunnelled(wirePlain), tupleTCP6), "it carries IPv4"},
		{badAction(Wire{Local: addrB4}, tupleUDP4), "not the two IPv6 addresses"},
		{badAction(outPlain, tupleTCP6), "IPv4 protocol 17 can't leave as IPv6 protocol 6"},
		{badAction(Wire{VLANs: make([]VLAN, 3)}, tupleUDP4), "3 VLAN tags"},
	}
	for _, tt := range tests {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("got %v, want …%s…", tt.err, tt.want)
		}
	}
}

// A difference is never 0, not even where every word goes from all ones to 0:
// 0 would leave a checksum of 0xffff as it is.
func TestDifferenceNotZero(t *testing.T) {
	_, a := action(t, wirePlain, outPlain,
		tuple(UDP, "255.255.255.255:65535", "255.255.255.255:65535"), tuple(UDP, "0.0.0.0:0", "0.0.0.0:0"), 1500)
	if a.L3Diff == [2]byte{} || a.L4Diff == [2]byte{} {
		t.Errorf("differences %x and %x", a.L3Diff, a.L4Diff)
	}
	_, same := action(t, wirePlain, outPlain, tupleUDP4, tupleUDP4, 1500)
	if same.L3Diff != [2]byte{0xfe, 0xff} || same.L4Diff != [2]byte{0xff, 0xff} {
		t.Errorf("without NAT: differences %x and %x", same.L3Diff, same.L4Diff)
	}
}

// The metadata is read as the program's machine wrote it.
func TestLoadMeta(t *testing.T) {
	ne := binary.NativeEndian
	b := ne.AppendUint32(ne.AppendUint32(nil, 70000), 0x01020304)
	b = append(b, 26, 6, TCP, 0)
	b = append(ne.AppendUint16(b, 1492), 0, 0)
	want := Meta{Ref{70000, 0x01020304}, Layout{L3: 26, Family: 6, Proto: TCP, Len: 1492}}
	if got := LoadMeta(b); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
