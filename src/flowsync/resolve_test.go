// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"net/netip"
	"testing"

	"fastpath/src/packet"
)

func tagQ(id uint16) packet.VLAN   { return packet.VLAN{Type: packet.TypeVLAN, ID: id} }
func tagQAD(id uint16) packet.VLAN { return packet.VLAN{Type: packet.TypeQinQ, ID: id} }

// The wires of the fixture.
var (
	lan   = packet.Wire{Port: 1, Peer: hostMAC, Own: lanMAC}
	wan   = packet.Wire{Port: 0, Peer: gateMAC, Own: eth0MAC}
	pppoe = packet.Wire{Port: 0, Peer: concMAC, Own: eth0MAC, Session: 7}
)

func with(w packet.Wire, tags ...packet.VLAN) packet.Wire { w.VLANs = tags; return w }

var resolveCases = []struct {
	what     string
	make     func(f *fixture)
	from, to packet.Wire // the originator's side and the other
	mtu      [2]uint16   // of packets to the other side, and back
	encap    string
}{
	{"a NIC and a bridge, masqueraded", func(f *fixture) {}, lan, wan, [2]uint16{1500, 1500}, ""},
	{"IPv6 without NAT", func(f *fixture) { f.tcp(host6, far6, host6) }, lan, wan, [2]uint16{1500, 1500}, ""},
	{"IPv6 masqueraded", func(f *fixture) { f.tcp(host6, far6, netip.MustParseAddr("2001:db8:2::77")) },
		lan, wan, [2]uint16{1500, 1500}, ""},
	{"a port forward: DNAT to another port", func(f *fixture) {
		f.tcp(far4, wan4, far4)
		f.c.reply.Src = netip.AddrPortFrom(host4, 8080)
	}, wan, lan, [2]uint16{1500, 1500}, ""},
	{"SNAT and DNAT at once", func(f *fixture) {
		f.tcp(host4, netip.MustParseAddr("192.168.1.1"), wan4)
		f.c.reply.Src = netip.AddrPortFrom(far4, 8443)
		f.c.reply.Dst = netip.AddrPortFrom(wan4, 1024)
	}, lan, wan, [2]uint16{1500, 1500}, ""},
	{"hairpin NAT: in and out by the bridge", func(f *fixture) {
		server := netip.MustParseAddr("192.168.1.30")
		f.w.neighbours[neighbourKey{brLAN, server}] = neighbour{otherMAC, 0x02}
		f.w.fdb[fdbKey{brLAN, 0, otherMAC}] = lan2
		f.tcp(host4, wan4, netip.MustParseAddr("192.168.1.1"))
		f.c.reply.Src = netip.AddrPortFrom(server, 443)
		f.route = func(query) route { return route{dev: brLAN} }
	}, lan, packet.Wire{Port: 2, Peer: otherMAC, Own: lanMAC}, [2]uint16{1500, 1500}, ""},
	{"UDP", func(f *fixture) {
		f.c.orig.Proto, f.c.reply.Proto, f.c.tcpState = packet.UDP, packet.UDP, 0
	}, lan, wan, [2]uint16{1500, 1500}, ""},
	{"a VLAN", func(f *fixture) { f.addVLAN(packet.TypeVLAN) }, lan, with(wan, tagQ(35)), [2]uint16{1500, 1500}, "vlan 35"},
	{"QinQ", func(f *fixture) {
		f.addVLAN(packet.TypeQinQ)
		f.addLink(link{index: vlanB, name: "eth0.35.7", kind: "vlan", lower: vlanA, mac: eth0MAC,
			vlan: vlanInfo{protocol: packet.TypeVLAN, id: 7}})
		f.w.neighbours[neighbourKey{vlanB, gate4}] = neighbour{gateMAC, 0x80} // permanent
		f.route = func(q query) route {
			r := f.defaultRoutes(q)
			if r.dev == eth0 {
				r.dev = vlanB
			}
			return r
		}
	}, lan, with(wan, tagQAD(35), tagQ(7)), [2]uint16{1500, 1500}, "vlan 7 over 802.1ad vlan 35"},
	{"PPPoE", func(f *fixture) { f.addPPPoE("eth0") }, lan, pppoe, [2]uint16{1492, 1500}, "pppoe session 7"},
	{"PPPoE over a VLAN", func(f *fixture) { f.addVLAN(packet.TypeVLAN); f.addPPPoE("eth0.35") },
		lan, with(pppoe, tagQ(35)), [2]uint16{1492, 1500}, "pppoe session 7 over vlan 35"},
	{"PPPoE over an Ethernet with a small MTU", func(f *fixture) {
		f.addPPPoE("eth0")
		f.edit(eth0, func(l *link) { l.mtu = 1400 })
	}, lan, pppoe, [2]uint16{1392, 1500}, "pppoe session 7"},
	{"DS-Lite", func(f *fixture) { f.addTunnel() }, lan,
		packet.Wire{Port: 0, Peer: gateMAC, Own: eth0MAC, Local: tnlLocal, Remote: tnlRemote, Tunnel: 1},
		[2]uint16{1460, 1500}, "ipv4 in ipv6"},
	{"DS-Lite, the outer route has a small MTU", func(f *fixture) {
		f.addTunnel()
		via := f.route
		f.route = func(q query) route {
			r := via(q)
			if q.dst == tnlRemote {
				r.mtu = 1400
			}
			return r
		}
	}, lan, packet.Wire{Port: 0, Peer: gateMAC, Own: eth0MAC, Local: tnlLocal, Remote: tnlRemote, Tunnel: 1},
		[2]uint16{1360, 1500}, "ipv4 in ipv6"},
	{"DS-Lite, IPv6's own MTU is small", func(f *fixture) {
		f.addTunnel()
		f.edit(eth0, func(l *link) { l.mtu6 = 1280 })
	}, lan, packet.Wire{Port: 0, Peer: gateMAC, Own: eth0MAC, Local: tnlLocal, Remote: tnlRemote, Tunnel: 1},
		[2]uint16{1240, 1500}, "ipv4 in ipv6"},
	{"DS-Lite over PPPoE over a VLAN", func(f *fixture) {
		f.addTunnel()
		f.addVLAN(packet.TypeVLAN)
		f.addPPPoE("eth0.35")
		f.route = func(q query) route {
			switch {
			case q.dst == host4:
				return route{dev: brLAN}
			case q.dst == tnlRemote:
				return route{dev: ppp}
			}
			return route{dev: tnl}
		}
	}, lan, packet.Wire{Port: 0, Peer: concMAC, Own: eth0MAC, Session: 7, VLANs: []packet.VLAN{tagQ(35)},
		Local: tnlLocal, Remote: tnlRemote, Tunnel: 1}, [2]uint16{1452, 1500}, "ipv4 in ipv6 over pppoe session 7 over vlan 35"},
	{"the route has the lower MTU", func(f *fixture) {
		f.route = func(q query) route {
			r := f.defaultRoutes(q)
			if r.dev == eth0 {
				r.mtu = 1300
			}
			return r
		}
	}, lan, wan, [2]uint16{1300, 1500}, ""},
	{"IPv6 has a lower MTU of its own", func(f *fixture) {
		f.tcp(host6, far6, host6)
		f.edit(eth0, func(l *link) { l.mtu6 = 1280 })
	}, lan, wan, [2]uint16{1280, 1500}, ""},
	{"the bridge's port has the lower MTU", func(f *fixture) {
		f.edit(lan1, func(l *link) { l.mtu = 1400 })
	}, lan, wan, [2]uint16{1500, 1400}, ""},
	{"a bridge that filters, untagged", func(f *fixture) { f.filter() }, lan, wan, [2]uint16{1500, 1500}, ""},
	{"a bridge that filters, tagged at the port", func(f *fixture) {
		f.filter()
		f.w.vlans[vlanKey{lan1, 1}] = vlan{}
	}, with(lan, tagQ(1)), wan, [2]uint16{1500, 1500}, "vlan 1"},
	{"a VLAN device on a bridge that filters, untagged at the port", func(f *fixture) {
		f.filter()
		f.addLink(link{index: vlanA, name: "br-lan.5", kind: "vlan", lower: brLAN, mac: lanMAC,
			vlan: vlanInfo{protocol: packet.TypeVLAN, id: 5}})
		f.w.vlans[vlanKey{brLAN, 5}] = vlan{}
		f.w.vlans[vlanKey{lan1, 5}] = vlan{pvid: true, untagged: true}
		f.w.fdb = map[fdbKey]int{{brLAN, 5, hostMAC}: lan1}
		f.w.neighbours[neighbourKey{vlanA, host4}] = neighbour{hostMAC, 0x02}
		f.route = func(q query) route {
			if q.dst == host4 {
				return route{dev: vlanA}
			}
			return f.defaultRoutes(q)
		}
	}, lan, wan, [2]uint16{1500, 1500}, ""},
	{"a VLAN device on a bridge that doesn't filter", func(f *fixture) {
		f.addLink(link{index: vlanA, name: "br-lan.5", kind: "vlan", lower: brLAN, mac: lanMAC,
			vlan: vlanInfo{protocol: packet.TypeVLAN, id: 5}})
		f.w.neighbours[neighbourKey{vlanA, host4}] = neighbour{hostMAC, 0x02}
		f.route = func(q query) route {
			if q.dst == host4 {
				return route{dev: vlanA}
			}
			return f.defaultRoutes(q)
		}
	}, with(lan, tagQ(5)), wan, [2]uint16{1500, 1500}, "vlan 5"},
	{"a VLAN device as the bridge's port", func(f *fixture) {
		f.addLink(link{index: vlanA, name: "eth0.9", kind: "vlan", lower: eth0, mac: eth0MAC, master: brLAN,
			vlan: vlanInfo{protocol: packet.TypeVLAN, id: 9}, port: portInfo{ofBridge: true, forwarding: true}})
		f.edit(brLAN, func(l *link) { l.mac = eth0MAC })
		f.w.fdb[fdbKey{brLAN, 0, hostMAC}] = vlanA
	}, packet.Wire{Port: 0, Peer: hostMAC, Own: eth0MAC, VLANs: []packet.VLAN{tagQ(9)}}, wan, [2]uint16{1500, 1500}, "vlan 9"},
	{"an IPv4 route by an IPv6 gateway", func(f *fixture) {
		f.route = func(q query) route {
			r := f.defaultRoutes(q)
			if r.dev == eth0 {
				r.gateway = gate6
			}
			return r
		}
	}, lan, wan, [2]uint16{1500, 1500}, ""},
	{"rules with marks that lead the same way", func(f *fixture) { f.w.rules.marks = []uint32{1, 0x80000} },
		lan, wan, [2]uint16{1500, 1500}, ""},
}

// TestResolve: which wire, which addresses and which MTU a connection gets.
func TestResolve(t *testing.T) {
	for _, c := range resolveCases {
		t.Run(c.what, func(t *testing.T) {
			f := newFixture()
			c.make(f)
			res := f.resolve(t)
			if res.reason != "" {
				t.Fatalf("refused: %s", res.reason)
			}
			checkPath(t, &f.c, &res, c.from, c.to, c.mtu)
			if got := res.encap(); got != c.encap {
				t.Errorf("encap %q, want %q", got, c.encap)
			}
		})
	}
}

// checkPath computes both directions from wires and tuples alone.
func checkPath(t testing.TB, c *connection, res *resolution, from, to packet.Wire, mtu [2]uint16) {
	t.Helper()
	for i, d := range []struct {
		in, out     packet.Wire
		comes, goes packet.Tuple
	}{
		{from, to, c.orig, packet.Tuple{Proto: c.orig.Proto, Src: c.reply.Dst, Dst: c.reply.Src}},
		{to, from, c.reply, packet.Tuple{Proto: c.orig.Proto, Src: c.orig.Dst, Dst: c.orig.Src}},
	} {
		key, err := packet.NewKey(d.in, d.comes)
		if err != nil {
			t.Fatal(err)
		}
		act, err := packet.NewAction(key, d.out, d.goes, mtu[i])
		if err != nil {
			t.Fatal(err)
		}
		if res.path.key[i] != key {
			t.Errorf("direction %d: key\n%+v, want\n%+v", i, res.path.key[i], key)
		}
		if res.path.act[i] != act {
			t.Errorf("direction %d: action\n%+v, want\n%+v", i, res.path.act[i], act)
		}
		if got := res.port(i).Slot; got != d.in.Port {
			t.Errorf("direction %d comes in by slot %d, want %d", i, got, d.in.Port)
		}
	}
}

// TestQueries: what the kernel is asked.
func TestQueries(t *testing.T) {
	f := newFixture()
	f.w.rules.ports = true
	f.w.rules.marks = []uint32{9}
	var asked []query
	next := f.route
	f.route = func(q query) route { asked = append(asked, q); return next(q) }
	if res := f.resolve(t); res.reason != "" {
		t.Fatal(res.reason)
	}
	want := map[query]bool{
		{dst: host4}: true,
		{dst: far4, src: host4, iif: brLAN, proto: packet.TCP, sport: 40000, dport: 443}:          true,
		{dst: far4, src: host4, iif: brLAN, proto: packet.TCP, sport: 40000, dport: 443, mark: 9}: true,
		{dst: host4, src: far4, iif: eth0, proto: packet.TCP, sport: 443, dport: 40000}:           true,
		{dst: host4, src: far4, iif: eth0, proto: packet.TCP, sport: 443, dport: 40000, mark: 9}:  true,
	}
	for _, q := range asked {
		if !want[q] {
			t.Errorf("asked %+v", q)
		}
		delete(want, q)
	}
	for q := range want {
		t.Errorf("did not ask %+v", q)
	}
}
