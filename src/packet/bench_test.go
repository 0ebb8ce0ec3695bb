// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	for _, bm := range []struct {
		name  string
		frame []byte
	}{
		{"plain-v4", unhex(plain4, udp4)},
		{"vlan-pppoe-v4", unhex(vlanPPPoE4, udp4)},
		{"vlan-v6", unhex(vlan6, tcp6)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			var p Parsed
			for b.Loop() {
				if Parse(bm.frame, &testPort, &p) != Forward {
					b.Fatal("not parsed")
				}
			}
		})
	}
}

// BenchmarkRewrite is what a worker does with a frame, twice: NAT and VLAN and
// PPPoE pushed, NAT and both popped.
func BenchmarkRewrite(b *testing.B) {
	b.ReportAllocs()
	frame := unhex(plain4, udp4)
	_, push := action(b, wirePlain, outVLANPPPoE, tupleUDP4, tupleUDP4NAT, 1500)
	_, pop := action(b, wirePlain, outPlain, tupleUDP4NAT, tupleUDP4, 1500)
	var p Parsed
	if Parse(frame, &testPort, &p) != Forward {
		b.Fatal("not parsed")
	}
	meta := make([]byte, MetaLen)
	meta[9], meta[10] = p.Layout.Family, p.Layout.Proto
	binary.NativeEndian.PutUint16(meta[12:], p.Layout.Len)
	buf := make([]byte, 128)
	off, n := 64, copy(buf[64:], frame)
	step := func(l3 uint8, a *Action) {
		meta[8] = l3
		var r Reason
		if off, n, r = Rewrite(buf, off, n, LoadMeta(meta).Layout, a); r != Forward {
			b.Fatal(r)
		}
	}
	for b.Loop() {
		step(14, &push)
		step(push.L2Len, &pop)
	}
}
