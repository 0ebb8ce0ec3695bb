// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"
)

// rewrite parses and rewrites a frame that lies at off in a buffer with room on
// both sides. It returns the new frame.
func rewrite(t *testing.T, frame []byte, a *Action) ([]byte, Reason) {
	t.Helper()
	var p Parsed
	if r := Parse(frame, &testPort, nil, &p); r != Forward {
		t.Fatalf("parse: %v", r)
	}
	buf := bytes.Repeat([]byte{0xee}, Headroom+len(frame)+MinFrame)
	copy(buf[Headroom:], frame)
	before := slices.Clone(buf)
	off, n, r := Rewrite(buf, Headroom, len(frame), p.Layout, a)
	if r != Forward && !bytes.Equal(buf, before) {
		t.Errorf("%v, but the buffer was changed", r)
	}
	if !bytes.Equal(buf[:off], before[:off]) || !bytes.Equal(buf[Headroom+len(frame):][max(off+n-Headroom-len(frame), 0):],
		before[Headroom+len(frame):][max(off+n-Headroom-len(frame), 0):]) {
		t.Error("written beside the frame")
	}
	return buf[off : off+n], r
}

func action(t testing.TB, in, out Wire, from, to Tuple, mtu uint16) (Key, Action) {
	t.Helper()
	k, err := NewKey(in, from)
	must(t, err)
	a, err := NewAction(k, out, to, mtu)
	must(t, err)
	return k, a
}

// pad fills up to the shortest frame.
func pad(b []byte) []byte { return append(b, make([]byte, max(MinFrame-len(b), 0))...) }

func TestRewrite(t *testing.T) {
	tests := []struct {
		name     string
		frame    []byte
		in, out  Wire
		from, to Tuple
		want     []byte
	}{
		{"NAT, push VLAN and PPPoE", unhex(plain4, udp4), wirePlain, outVLANPPPoE, tupleUDP4, tupleUDP4NAT,
			pad(unhex(outVLANPPPoE4H, udp4NAT))},
		{"the same, padded on the way in", append(unhex(plain4, udp4), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), wirePlain,
			outVLANPPPoE, tupleUDP4, tupleUDP4NAT, pad(unhex(outVLANPPPoE4H, udp4NAT))},
		{"NAT, pop VLAN and PPPoE", unhex(vlanPPPoE4, udp4), wireVLANPPPoE, outPlain, tupleUDP4, tupleUDP4NAT,
			pad(unhex(outPlain4Hex, udp4NAT))},
		{"IPv6, push all", unhex(vlan6, tcp6), wireVLAN, outQinQPPPoE, tupleTCP6, tupleTCP6,
			unhex(outQinQPPPoE6H, tcp6Forwarded)},
		{"IPv6, pop all", append(unhex(qinqPPPoE6, tcp6), 7, 7, 7), wireQinQPPPoE, outPlain, tupleTCP6, tupleTCP6,
			unhex(outPlain6Hex, tcp6Forwarded)},
		{"UDP without checksum", with(unhex(plain4, udp4), 40, 0, 0), wirePlain, outPlain, tupleUDP4, tupleUDP4NAT,
			pad(with(unhex(outPlain4Hex, udp4NAT), 40, 0, 0))},
		{"a wrong checksum stays as wrong", with(unhex(plain4, udp4), 40, 0xb5, 0xf9), wirePlain, outPlain, tupleUDP4,
			tupleUDP4NAT, pad(with(unhex(outPlain4Hex, udp4NAT), 40, 0x60, 0xdd))},
	}
	for _, tt := range tests {
		_, a := action(t, tt.in, tt.out, tt.from, tt.to, 1500)
		got, r := rewrite(t, tt.frame, &a)
		if r != Forward || !bytes.Equal(got, tt.want) {
			t.Errorf("%s: %v\n%swant\n%s", tt.name, r, hex.Dump(got), hex.Dump(tt.want))
		}
	}
}

// UDP's checksum is never sent as 0, which would mean that there is none.
func TestRewriteChecksumZero(t *testing.T) {
	_, a := action(t, wirePlain, outPlain, tupleUDP4, tupleUDP4NAT, 1500)
	frame := unhex(plain4, udp4)
	// 0x60dc leaves; that much more in the data makes it 0.
	frame = with(frame, 42, byte((0x6661+0x60dc)>>8), byte((0x6661+0x60dc)&0xff))
	frame = with(frame, 40, byte((0xb5f8-0x60dc)>>8), byte((0xb5f8-0x60dc)&0xff))
	if l3, l4 := sums(frame[14:]); !l3 || !l4 {
		t.Fatal("the frame that comes in is wrong")
	}
	got, r := rewrite(t, frame, &a)
	if l3, l4 := sums(got[14:]); r != Forward || !l3 || !l4 || got[40] != 0xff || got[41] != 0xff {
		t.Errorf("%v, checksum %x", r, got[40:42])
	}
}

func TestRewriteRefuses(t *testing.T) {
	frame := unhex(plain4, udp4)
	var p Parsed
	Parse(frame, &testPort, nil, &p)
	_, a := action(t, wirePlain, outVLANPPPoE, tupleUDP4, tupleUDP4NAT, 34)
	small, noL2, longL2, lies, tiny := a, a, a, p.Layout, p.Layout
	small.MTU = 33
	noL2.L2Len, longL2.L2Len = 10, MaxL2+4
	lies.Len, tiny.Len = 35, 27
	buf := func(head, tail int) []byte { return slices.Concat(make([]byte, head), frame, make([]byte, tail)) }
	tests := []struct {
		name   string
		head   int
		tail   int
		layout Layout
		action Action
		want   Reason
	}{
		{"fits exactly", 12, 0, p.Layout, a, Forward},
		{"no room in front", 11, 60, p.Layout, a, NoRoom},
		{"no room behind", 16, 0, p.Layout, func() Action { b := a; b.L2Len, b.Encap = 14, 0; return b }(), NoRoom},
		{"too big", 16, 60, p.Layout, small, TooBig},
		{"no Ethernet header", 16, 60, p.Layout, noL2, NoRoom},
		{"header too long", 60, 60, p.Layout, longL2, NoRoom},
		{"layout beyond the frame", 16, 60, lies, a, TooBig},
		{"layout beyond the frame, large MTU", 16, 60, lies, func() Action { b := a; b.MTU = 1500; return b }(), Length},
		{"layout shorter than the headers", 16, 60, tiny, a, Length},
	}
	for _, tt := range tests {
		b := buf(tt.head, tt.tail)
		before := slices.Clone(b)
		off, n, r := Rewrite(b, tt.head, len(frame), tt.layout, &tt.action)
		if r != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, r, tt.want)
		}
		if r != Forward && (off != tt.head || n != len(frame) || !bytes.Equal(b, before)) {
			t.Errorf("%s: the frame was changed", tt.name)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	frame := unhex(qinqPPPoE6, tcp6)
	_, a := action(t, wireQinQPPPoE, outPlain, tupleTCP6, tupleTCP6, 1500)
	buf := append(make([]byte, Headroom), frame...)
	var p Parsed
	meta := make([]byte, MetaLen)
	n := testing.AllocsPerRun(1000, func() {
		copy(buf[Headroom:], frame)
		LoadMeta(meta)
		if Parse(buf[Headroom:], &testPort, nil, &p) != Forward {
			t.Fatal("not parsed")
		}
		if _, _, r := Rewrite(buf, Headroom, len(frame), p.Layout, &a); r != Forward {
			t.Fatal(r)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per packet", n)
	}
}
