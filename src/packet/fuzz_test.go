// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

// Whatever comes in: no panic, the frame stays, and what is found lies within it.
func FuzzParse(f *testing.F) {
	for _, frame := range [][]byte{unhex(plain4, udp4), unhex(vlan6, tcp6), unhex(vlanPPPoE4, udp4), unhex(qinqPPPoE6, tcp6),
		unhex(plain6, outerIn, udp4), unhex(vlanPPPoE6, outerIn, udp4)} {
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		before := slices.Clone(frame)
		var p Parsed
		r := Parse(frame, &testPort, testTunnels, &p)
		if !bytes.Equal(frame, before) {
			t.Error("the frame was changed")
		}
		if r != Forward {
			return
		}
		end := int(p.Layout.L3) + int(p.Layout.Len)
		if end > len(frame) || int(p.Layout.Len) < headLen(p.Layout) || p.Layout.L3 > MaxL2 {
			t.Errorf("layout %+v in %d bytes", p.Layout, len(frame))
		}
	})
}

// Rewriting there and back again gives the packet that came, two hops older:
// checksums as well, unless one was written as 0xffff where it is 0.
func FuzzRoundTrip(f *testing.F) {
	f.Add(unhex(plain4, udp4), []byte("any tuple and any header; long enough to fill all of it"), uint16(0))
	f.Add(unhex(vlan6, tcp6), bytes.Repeat([]byte{0xff}, 40), uint16(0x1fff))
	f.Add(unhex(vlanPPPoE4, udp4), []byte{}, uint16(0x8001))
	f.Add(unhex(qinqPPPoE6, tcp6), []byte{1}, uint16(0x4123))
	f.Add(unhex(vlanPPPoE6, outerIn, udp4), []byte{1}, uint16(0x4127))
	f.Fuzz(func(t *testing.T, frame, other []byte, seed uint16) {
		var p Parsed
		if Parse(frame, &testPort, testTunnels, &p) != Forward || p.Layout.Len > 1500 {
			return
		}
		there, back, ok := thereAndBack(p.Key, other, seed)
		if !ok {
			return
		}
		ip := slices.Clone(frame[p.Layout.L3:][:p.Layout.Len])
		ttl := &ip[8]
		if p.Key.Family == 6 {
			ttl = &ip[7]
		}
		if *ttl < 4 {
			return
		}
		*ttl -= 2

		buf := slices.Concat(make([]byte, 2*Headroom), frame, make([]byte, MinFrame))
		off, n, r := Rewrite(buf, 2*Headroom, len(frame), p.Layout, &there)
		if r != Forward {
			t.Fatal(r)
		}
		again := p.Layout
		again.L3 = there.L2Len
		off, n, r = Rewrite(buf, off, n, again, &back)
		if r != Forward {
			t.Fatal(r)
		}
		got := buf[off+int(back.L2Len) : off+n][:len(ip)]
		clearSums(p.Key, ip, frame[p.Layout.L3:], got)
		if !bytes.Equal(got, ip) {
			t.Errorf("came back as\n%x, was\n%x", got, ip)
		}
	})
}

// clearSums compares what is left of the checksums (by their error, which must
// be the same before and after) and then sets them to 0.
func clearSums(k Key, want, in, got []byte) {
	head := 40
	if k.Family == 4 {
		head = 20
		equal(want[10:12], in[10:12], got[10:12], 2*0x0100)
	}
	at := head + 16
	if k.Proto == UDP {
		at = head + 6
	}
	equal(want[at:at+2], in[at:at+2], got[at:at+2], 0)
}

// equal clears want and got if got is in+more in ones' complement.
func equal(want, in, got []byte, more int) {
	w := (int(binary.BigEndian.Uint16(in)) + more) % 65535
	if int(binary.BigEndian.Uint16(got))%65535 == w {
		clear(want)
		clear(got)
	}
}

// thereAndBack makes an action for k out of random bytes, and the one that
// undoes it. Not ok: an IPv4 address written as IPv6, which no flow has.
func thereAndBack(k Key, other []byte, seed uint16) (there, back Action, ok bool) {
	to := k
	spread := slices.Concat(other, make([]byte, 36))
	copy(to.Src[:], spread)
	copy(to.Dst[:], spread[16:])
	copy(to.SrcPort[:], spread[32:])
	if k.Family == 4 {
		clear(to.Src[4:])
		clear(to.Dst[4:])
	}
	out := Wire{Port: 1, VLANs: []VLAN{{TypeQinQ, seed % 4096}, {TypeVLAN, 1}}[:seed%3], Session: seed >> 12}
	undo := Wire{Port: 2, VLANs: []VLAN{{TypeVLAN, 9}, {TypeVLAN, 1}}[:seed/3%3], Session: seed >> 13 & 1}
	if k.Family == 4 && seed&4 != 0 {
		out = tunnelled(out)
	}
	if k.Family == 4 && seed&8 != 0 {
		undo = tunnelled(undo)
	}
	there, err := NewAction(k, out, unkey(to), 1500)
	if err == nil {
		back, err = NewAction(to, undo, unkey(k), 1500)
	}
	return there, back, err == nil
}

// unkey is the tuple that k was made of.
func unkey(k Key) Tuple {
	addr := func(b [16]byte, port [2]byte) netip.AddrPort {
		a := netip.AddrFrom16(b)
		if k.Family == 4 {
			a = netip.AddrFrom4([4]byte(b[:4]))
		}
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(port[:]))
	}
	return Tuple{Proto: k.Proto, Src: addr(k.Src, k.SrcPort), Dst: addr(k.Dst, k.DstPort)}
}

// FuzzChecksum: adding a difference to a checksum gives what adding everything
// up gives.
func FuzzChecksum(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4}, []byte{5, 6, 7, 8})
	f.Add([]byte{0xff, 0xff}, []byte{0, 0})
	f.Add([]byte{0, 0}, []byte{0xff, 0xff})
	f.Fuzz(func(t *testing.T, from, to []byte) {
		n := min(len(from), len(to), 32) &^ 1
		from, to = from[:n], to[:n]
		const rest = 0x0011 // something else that the checksum covers
		sum := func(b []byte) (s int) {
			for i := 0; i < len(b); i += 2 {
				s += int(b[i])<<8 + int(b[i+1])
			}
			return 65535 - (s+rest-1)%65535 - 1
		}
		check := binary.BigEndian.AppendUint16(nil, uint16(sum(from)))
		adjust((*[2]byte)(check), fold(difference(from, to)+0xffff))
		if got := int(binary.BigEndian.Uint16(check)); got != sum(to) {
			t.Errorf("%x to %x: %04x becomes %04x, want %04x", from, to, sum(from), got, sum(to))
		}
	})
}
