// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"net/netip"
	"testing"
)

// crossing is a flow and how its frames look on both sides.
type crossing struct {
	name    string
	down    bool // from right to left
	in, out Frame
}

// crossings have different ports, by which the sink tells them apart.
func crossings() []crossing {
	const udp, tcp = 17, 6
	lan, nat, far := "10.0.1.2:", "192.0.2.1:", addr("198.51.100.7:5000")
	lan6, far6 := addr("[2001:db8:1::2]:4000"), addr("[2001:db8:9::7]:5000")
	vlan, qinq := []uint16{35}, []uint16{7, 4095}
	toAFTR, toB4 := [2]netip.Addr{b4, aftr}, [2]netip.Addr{aftr, b4}
	return []crossing{
		{"UDP, NAT", false, Frame{Proto: udp, From: addr(lan + "1001"), To: far}, Frame{Proto: udp, From: addr(nat + "21001"), To: far}},
		{"TCP, NAT", false, Frame{Proto: tcp, From: addr(lan + "1002"), To: far}, Frame{Proto: tcp, From: addr(nat + "21002"), To: far}},
		{"UDP without checksum", false, Frame{Proto: udp, From: addr(lan + "1003"), To: far, NoCheck: true}, Frame{Proto: udp, From: addr(nat + "21003"), To: far, NoCheck: true}},
		{"VLAN and PPPoE push, UDP", false, Frame{Proto: udp, From: addr(lan + "1004"), To: far},
			Frame{Proto: udp, From: addr(nat + "21004"), To: far, VLANs: vlan, Session: 0x1234}},
		{"VLAN and PPPoE push, TCP", false, Frame{Proto: tcp, From: addr(lan + "1005"), To: far},
			Frame{Proto: tcp, From: addr(nat + "21005"), To: far, VLANs: vlan, Session: 0x1234}},
		{"two VLANs push", false, Frame{Proto: udp, From: addr(lan + "1006"), To: far}, Frame{Proto: udp, From: addr(nat + "21006"), To: far, VLANs: []uint16{100, 4095}}},
		{"DS-Lite push, UDP", false, Frame{Proto: udp, From: addr(lan + "1007"), To: far}, Frame{Proto: udp, From: addr(lan + "1007"), To: far, Outer: toAFTR}},
		{"DS-Lite below QinQ and PPPoE push, UDP", false, Frame{Proto: udp, From: addr(lan + "1008"), To: far},
			Frame{Proto: udp, From: addr(lan + "1008"), To: far, VLANs: qinq, QinQ: true, Session: 0xffff, Outer: toAFTR}},
		{"DS-Lite below QinQ and PPPoE push, TCP", false, Frame{Proto: tcp, From: addr(lan + "1009"), To: far},
			Frame{Proto: tcp, From: addr(lan + "1009"), To: far, VLANs: qinq, QinQ: true, Session: 0xffff, Outer: toAFTR}},
		{"DS-Lite below QinQ and PPPoE pop, UDP", true, Frame{Proto: udp, From: far, To: addr(lan + "1008"), VLANs: qinq, QinQ: true, Session: 0xffff, Outer: toB4},
			Frame{Proto: udp, From: far, To: addr(lan + "1008")}},
		{"DS-Lite below QinQ and PPPoE pop, TCP", true, Frame{Proto: tcp, From: far, To: addr(lan + "1009"), VLANs: qinq, QinQ: true, Session: 0xffff, Outer: toB4},
			Frame{Proto: tcp, From: far, To: addr(lan + "1009")}},
		{"DS-Lite pop, UDP", true, Frame{Proto: udp, From: far, To: addr(lan + "1007"), Outer: toB4}, Frame{Proto: udp, From: far, To: addr(lan + "1007")}},
		{"UDP, NAT back", true, Frame{Proto: udp, From: far, To: addr(nat + "21001")}, Frame{Proto: udp, From: far, To: addr(lan + "1001")}},
		{"VLAN and PPPoE pop, UDP", true, Frame{Proto: udp, From: far, To: addr(nat + "21004"), VLANs: vlan, Session: 0x1234}, Frame{Proto: udp, From: far, To: addr(lan + "1004")}},
		{"VLAN and PPPoE pop, TCP", true, Frame{Proto: tcp, From: far, To: addr(nat + "21005"), VLANs: vlan, Session: 0x1234}, Frame{Proto: tcp, From: far, To: addr(lan + "1005")}},
		{"IPv6 UDP", false, Frame{Proto: udp, From: lan6, To: far6}, Frame{Proto: udp, From: lan6, To: far6}},
		{"IPv6 TCP, VLAN and PPPoE push", false, Frame{Proto: tcp, From: lan6, To: far6}, Frame{Proto: tcp, From: lan6, To: far6, VLANs: vlan, Session: 0x1234}},
		{"IPv6 TCP, VLAN and PPPoE pop", true, Frame{Proto: tcp, From: far6, To: lan6, VLANs: vlan, Session: 0x1234}, Frame{Proto: tcp, From: far6, To: lan6}},
		{"IPv6 UDP, other address", true, Frame{Proto: udp, From: far6, To: addr("[2001:db8:5::1]:4001")}, Frame{Proto: udp, From: far6, To: lan6}},
	}
}

// Every kind of rewriting, on both engines, every byte compared with a frame
// that was built from scratch.
func TestEveryByte(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *lab, engine string) {
		cases := crossings()
		var flows []Flow
		for i := range cases {
			c := &cases[i]
			if c.down {
				flows = append(flows, l.down(c.in, c.out))
				c.in.Dst, c.in.Src, c.out.Dst, c.out.Src = l.r1, l.right.MAC, l.left.MAC, l.r0
			} else {
				flows = append(flows, l.up(c.in, c.out))
				c.in.Dst, c.in.Src, c.out.Dst, c.out.Src = l.r0, l.left.MAC, l.right.MAC, l.r1
			}
		}
		router := l.start(engine, flows...)
		total := uint64(0)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { total += cross(t, l, c) })
		}
		st := router.finish()
		if got := st.Program[0][0] + st.Program[1][0]; got != total {
			t.Errorf("the program forwarded %d of %d frames: %v", got, total, st.Program)
		}
		checkWorkers(t, st, engine, total)
	})
}

// cross sends frames of all sizes and compares what arrives, in order.
func cross(t *testing.T, l *lab, c crossing) uint64 {
	from, to := l.left, l.right
	if c.down {
		from, to = to, from
	}
	var in, want [][]byte
	// A header is popped from an IP packet of at least 46 bytes: below, the frame
	// must be padded at its end, where a frame from veth has no room for the
	// XDP program; it lets those up. (Real drivers leave room.)
	first := 0
	if len(c.in.VLANs) > 0 || c.in.Outer[0].IsValid() {
		first = 18
	}
	for size := first; size <= 1400; size += 1 + size/3 {
		c.in.TTL, c.in.ID = 2+uint8(size%254), uint16(size*7)
		c.in.Payload = make([]byte, size)
		for i := range c.in.Payload {
			c.in.Payload[i] = byte(i*size + 3)
		}
		c.out.TTL, c.out.ID, c.out.Payload = c.in.TTL-1, c.in.ID, c.in.Payload
		in, want = append(in, c.in.Bytes()), append(want, c.out.Bytes())
	}
	send(t, from, in...)
	got := collect(t, to, len(want), func([]byte) bool { return true })
	for i := range want {
		if i >= len(got) {
			t.Fatalf("%d of %d frames arrived", len(got), len(want))
		}
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("frame %d was %s arrived as %s should be %s", i, dump(in[i]), dump(got[i]), dump(want[i]))
		}
	}
	return uint64(len(want))
}

// checkWorkers: the workers must have seen all frames (engine afxdp) or none.
func checkWorkers(t *testing.T, st Stats, engine string, total uint64) {
	t.Helper()
	if engine == "xdp" {
		total = 0
	}
	var received, queued uint64
	for _, w := range st.Workers {
		if w.NotFirst {
			t.Error("a worker did not get its priority")
		}
	}
	for _, in := range st.Inputs {
		received += in.Packets
		if in.Starved != 0 {
			t.Errorf("input: %+v", in)
		}
	}
	for _, o := range st.Outputs {
		queued += o.Queued
	}
	if received != total || queued != total {
		t.Errorf("the workers received %d and sent %d of %d packets", received, queued, total)
	}
}
