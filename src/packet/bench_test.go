// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"net/netip"
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
				if Parse(bm.frame, &testPort, nil, &p) != Forward {
					b.Fatal("not parsed")
				}
			}
		})
	}
}

// BenchmarkRewrite is what a worker does with a frame: reads its metadata and
// rewrites it. The frames are a burst of 64; they take turns among the actions of
// a thousand flows, first out, then back.
func BenchmarkRewrite(b *testing.B) {
	for _, bm := range []struct {
		name string
		out  Wire
	}{
		{"plain", outPlain},
		{"vlan-pppoe", outVLANPPPoE},
		{"dslite", tunnelled(outPlain)},
		{"dslite-qinq-pppoe", tunnelled(outQinQPPPoE)},
	} {
		b.Run(bm.name, func(b *testing.B) { benchRewrite(b, bm.out) })
	}
}

func benchRewrite(b *testing.B, out Wire) {
	const flows, frames, frameSize, start = 1000, 64, 2048, 256
	b.ReportAllocs()
	var actions [2][flows]Action // out, back
	for i := range flows {
		from, to := tupleUDP4, tupleUDP4NAT
		from.Src = netip.AddrPortFrom(from.Src.Addr(), uint16(i))
		to.Src = netip.AddrPortFrom(to.Src.Addr(), uint16(i+20000))
		_, actions[0][i] = action(b, wirePlain, out, from, to, 1400)
		_, actions[1][i] = action(b, wirePlain, outPlain, to, from, 1400)
	}
	umem := make([]byte, frames*frameSize)
	var burst [frames]struct {
		buf    []byte
		off, n int
	}
	for i := range burst {
		f := &burst[i]
		f.buf, f.off = umem[i*frameSize:][:frameSize:frameSize], start
		f.n = copy(f.buf[start:], pad(unhex(plain4, udp4)))
	}
	metas := [2][MetaLen]byte{{8: ethLen, 9: 4, 10: UDP}, {8: actions[0][0].L2Len, 9: 4, 10: UDP}}
	for i := range metas {
		binary.NativeEndian.PutUint16(metas[i][12:], 34)
	}
	for i := uint(0); b.Loop(); i++ { // an op is a packet
		f, back := &burst[i%frames], i/frames%2
		var r Reason
		f.off, f.n, r = Rewrite(f.buf, f.off, f.n, LoadMeta(metas[back][:]).Layout, &actions[back][i%flows])
		if r != Forward {
			b.Fatal(r)
		}
	}
}
