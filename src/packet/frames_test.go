// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// Packets written by hand; their checksums were computed by other means.
const (
	// 192.168.1.2:5000 → 198.51.100.7:53, and after source NAT to 203.0.113.5:61000
	udp4    = "4500002212344000 40113cb2 c0a80102 c6336407 13880035 000eb5f8 666173747061"
	udp4NAT = "4500002212344000 3f11c356 cb007105 c6336407 ee480035 000e60dc 666173747061"
	// [2001:db8::2]:40000 → [2001:db8:1::7]:443, and forwarded
	tcp6 = "60012345 001a 06 40 20010db8000000000000000000000002 20010db8000100000000000000000007" +
		"9c4001bb 01020304 05060708 50184000 1c040000 666173747061"
	tcp6Forwarded = "60012345 001a 06 3f 20010db8000000000000000000000002 20010db8000100000000000000000007" +
		"9c4001bb 01020304 05060708 50184000 1c040000 666173747061"
)

// Layer 2 in front of them. testPort takes what begins so.
const (
	plain4     = "020000000001 0a0000000009 0800"
	vlan6      = "020000000002 0a0000000009 8100 e023 86dd"                     // priority 7, id 35
	vlanPPPoE4 = "020000000001 0a0000000009 8100 0023 8864 1100 1234 0024 0021" // session 0x1234
	qinqPPPoE6 = "020000000001 0a0000000009 88a8 0007 8100 0023 8864 1100 1234 0044 0057"
)

var testPort = Port{MACs: [2][6]byte{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}, Slot: 3}

var peer = [6]byte{10, 0, 0, 0, 0, 9}

// unhex reads hex with blanks in between.
func unhex(parts ...string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tuple(proto uint8, src, dst string) Tuple {
	return Tuple{Proto: proto, Src: netip.MustParseAddrPort(src), Dst: netip.MustParseAddrPort(dst)}
}

var (
	tupleUDP4    = tuple(UDP, "192.168.1.2:5000", "198.51.100.7:53")
	tupleUDP4NAT = tuple(UDP, "203.0.113.5:61000", "198.51.100.7:53")
	tupleTCP6    = tuple(TCP, "[2001:db8::2]:40000", "[2001:db8:1::7]:443")
)

// The wires of the frames above, and one to leave by.
var (
	wirePlain      = Wire{Port: 3, Peer: peer}
	wireVLAN       = Wire{Port: 3, Peer: peer, VLANs: []VLAN{{TypeVLAN, 35}}}
	wireVLANPPPoE  = Wire{Port: 3, Peer: peer, VLANs: []VLAN{{TypeVLAN, 35}}, Session: 0x1234}
	wireQinQPPPoE  = Wire{Port: 3, Peer: peer, VLANs: []VLAN{{TypeQinQ, 7}, {TypeVLAN, 35}}, Session: 0x1234}
	outPlain       = Wire{Port: 1, Peer: [6]byte{4, 4, 4, 4, 4, 4}, Own: [6]byte{6, 6, 6, 6, 6, 6}}
	outVLANPPPoE   = Wire{Port: 1, Peer: outPlain.Peer, Own: outPlain.Own, VLANs: []VLAN{{TypeVLAN, 35}}, Session: 0x1234}
	outQinQPPPoE   = Wire{Port: 1, Peer: outPlain.Peer, Own: outPlain.Own, VLANs: wireQinQPPPoE.VLANs, Session: 0xffff}
	outPlain4Hex   = "040404040404 060606060606 0800"
	outPlain6Hex   = "040404040404 060606060606 86dd"
	outVLANPPPoE4H = "040404040404 060606060606 8100 0023 8864 1100 1234 0024 0021"
	outQinQPPPoE6H = "040404040404 060606060606 88a8 0007 8100 0023 8864 1100 ffff 0044 0057"
)

// with is frame with b written at offset at.
func with(frame []byte, at int, b ...byte) []byte {
	frame = slices.Clone(frame)
	copy(frame[at:], b)
	return frame
}

// sums says whether the checksums of an IP packet are right, by adding
// everything up (RFC 1071).
func sums(ip []byte) (l3, l4 bool) {
	add := func(sum int, b []byte) int {
		for i := 0; i+1 < len(b); i += 2 {
			sum += int(binary.BigEndian.Uint16(b[i:]))
		}
		if len(b)%2 == 1 {
			sum += int(b[len(b)-1]) << 8
		}
		return sum
	}
	head, addrs, proto := 20, ip[12:20], ip[9]
	if ip[0]>>4 == 6 {
		head, addrs, proto = 40, ip[8:40], ip[6]
	}
	l4bytes := ip[head:]
	if proto == UDP {
		l4bytes = l4bytes[:binary.BigEndian.Uint16(l4bytes[4:])]
	}
	pseudo := add(int(proto)+len(l4bytes), addrs)
	return head == 40 || add(0, ip[:head])%65535 == 0, add(pseudo, l4bytes)%65535 == 0
}

func TestHandMadePackets(t *testing.T) {
	for _, ip := range []string{udp4, udp4NAT, tcp6, tcp6Forwarded} {
		if l3, l4 := sums(unhex(ip)); !l3 || !l4 {
			t.Errorf("%s: checksums right? layer 3 %v, layer 4 %v", ip, l3, l4)
		}
	}
}
