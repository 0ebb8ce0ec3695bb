// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"net/netip"
	"strings"
	"testing"

	"fastpath/src/packet"
	"fastpath/src/state"
)

// answer makes the routes that lead to dev be r.
func answer(f *fixture, dev int, r route) {
	next := f.route
	f.route = func(q query) route {
		if a := next(q); a.dev != dev {
			return a
		}
		return r
	}
}

var refuseCases = []struct {
	what   string
	make   func(f *fixture)
	reason string // a part of it
}{
	// The connection.
	{"TCP not established", func(f *fixture) { f.c.tcpState = 2 }, "not established"},
	{"UDP without an answer", func(f *fixture) { udp(f); f.c.status = statusConfirmed }, "no answer yet"},
	{"it clashed", func(f *fixture) { f.c.status |= statusClash }, "clashed"},
	{"not confirmed", func(f *fixture) { f.c.status = statusAssured }, "ending"},
	{"dying", func(f *fixture) { f.c.status |= statusDying }, "ending"},
	{"in a flowtable", func(f *fixture) { f.c.status |= statusOffload }, "a flowtable carries it"},
	{"a helper", func(f *fixture) { f.c.helper = true }, "helper"},
	{"sequence numbers", func(f *fixture) { f.c.status |= statusSeqAdjust }, "sequence numbers"},
	{"a zone", func(f *fixture) { f.c.zone = true }, "zone"},
	{"a foreign mark", func(f *fixture) { f.c.mark |= 0x100 }, "the mark 0x100 of somebody else"},
	{"to the router", func(f *fixture) { f.c.reply.Src = netip.AddrPortFrom(wan4, 443) }, "ends at the router itself (203.0.113.5)"},
	{"from the router", func(f *fixture) { f.c.orig.Src = netip.AddrPortFrom(wan4, 1) }, "ends at the router itself"},
	// Routes.
	{"IPsec", func(f *fixture) { f.w.ipsec = true }, "IPsec"},
	{"a rule by TOS", func(f *fixture) { f.w.rules.tos = true }, "TOS"},
	{"no route", func(f *fixture) { answer(f, eth0, route{refusal: "the kernel has no route to 198.51.100.9: x"}) }, "no route to 198.51.100.9"},
	{"no route back", func(f *fixture) {
		f.route = func(q query) route {
			if q.dst == host4 && q.iif != 0 {
				return route{refusal: "none"}
			}
			return f.defaultRoutes(q)
		}
	}, "none"},
	{"no way to the originator", func(f *fixture) { f.route = func(query) route { return route{refusal: "none"} } }, "none"},
	{"asymmetric", func(f *fixture) {
		f.route = func(q query) route {
			if q.dst == host4 && q.iif != 0 {
				return route{dev: lan3}
			}
			return f.defaultRoutes(q)
		}
	}, "asymmetric routes: answers to 192.168.1.20 leave by lan3, its packets should come by br-lan"},
	{"a rule by mark leads elsewhere", func(f *fixture) {
		f.w.rules.marks = []uint32{0x100}
		f.route = func(q query) route {
			if r := f.defaultRoutes(q); q.mark == 0 || r.dev != eth0 {
				return r
			}
			return route{dev: eth0, gateway: netip.MustParseAddr("203.0.113.2")}
		}
	}, "a routing rule sends packets to 198.51.100.9 with mark 0x100 another way"},
	{"a rule by mark leads nowhere", func(f *fixture) {
		f.w.rules.marks = []uint32{0x100}
		f.route = func(q query) route {
			if q.mark != 0 {
				return route{refusal: "blackhole"}
			}
			return f.defaultRoutes(q)
		}
	}, "with mark 0x100 another way"},
	// Devices.
	{"a link that is gone", func(f *fixture) { delete(f.w.links, eth0) }, "gone"},
	{"down", func(f *fixture) { f.edit(eth0, func(l *link) { l.up = false }) }, "eth0 is down"},
	{"no carrier", func(f *fixture) { f.edit(eth0, func(l *link) { l.carrier = false }) }, "eth0 has no carrier"},
	{"the bridge's port is down", func(f *fixture) { f.edit(lan1, func(l *link) { l.up = false }) }, "lan1 is down"},
	{"in a VRF", func(f *fixture) {
		f.edit(eth0, func(l *link) { l.master = 77 })
		f.addLink(link{index: 77, name: "red", kind: "vrf"})
	}, "eth0 is a part of red"},
	{"no Ethernet", func(f *fixture) {
		f.addLink(link{index: 60, name: "wg0", kind: "wireguard"})
		f.via(60)
	}, "wg0 is no Ethernet device (wireguard)"},
	{"loopback", func(f *fixture) { f.addLink(link{index: 1, name: "lo"}); f.via(1) }, "lo is no Ethernet device"},
	{"no engine on the WAN", func(f *fixture) { delete(f.ports, eth0) }, "203.0.113.1 is behind eth0, which has no engine"},
	{"no engine on the LAN", func(f *fixture) { f.w.fdb[fdbKey{brLAN, 0, hostMAC}] = lan3 }, "192.168.1.20 is behind lan3, which has no engine"},
	{"two engines", func(f *fixture) {
		f.ports[eth0] = Port{Name: "eth0", Ifindex: eth0, Engine: state.EngineAFXDP}
	}, "lan1 has engine xdp, eth0 has afxdp"},
	{"another MAC", func(f *fixture) { f.addVLAN(packet.TypeVLAN); f.edit(vlanA, func(l *link) { l.mac = otherMAC }) },
		"frames on eth0 carry another MAC"},
	{"three tags", func(f *fixture) {
		f.addVLAN(packet.TypeQinQ)
		f.addLink(link{index: vlanB, name: "eth0.35.7", kind: "vlan", lower: vlanA, mac: eth0MAC, vlan: vlanInfo{protocol: packet.TypeVLAN, id: 7}})
		f.addLink(link{index: 22, name: "eth0.35.7.1", kind: "vlan", lower: vlanB, mac: eth0MAC, vlan: vlanInfo{protocol: packet.TypeVLAN, id: 1}})
		f.w.neighbours[neighbourKey{22, gate4}] = neighbour{gateMAC, 0x02}
		next := f.route
		f.route = func(q query) route {
			r := next(q)
			if r.dev == vlanA {
				r.dev = 22
			}
			return r
		}
	}, "3 VLAN tags on eth0"},
	{"a VLAN protocol of its own", func(f *fixture) { f.addVLAN(0x9100) }, "VLAN protocol 0x9100 on eth0"},
	{"VLAN priorities", func(f *fixture) {
		f.addVLAN(packet.TypeVLAN)
		f.edit(vlanA, func(l *link) { l.vlan.priorities = true })
	}, "eth0.35 sets VLAN priorities"},
	{"a VLAN whose parent is gone", func(f *fixture) {
		f.addVLAN(packet.TypeVLAN)
		f.edit(vlanA, func(l *link) { l.lower = 99 })
	}, "gone"},
	{"a ring", func(f *fixture) {
		f.addVLAN(packet.TypeVLAN)
		f.edit(vlanA, func(l *link) { l.lower = vlanA })
	}, "ring"},
	{"no room in the MTU", func(f *fixture) { f.addPPPoE("eth0"); f.edit(eth0, func(l *link) { l.mtu = 4 }) }, "no packet fits into the MTU of eth0"},
	// Neighbours and bridges.
	{"no neighbour", func(f *fixture) { delete(f.w.neighbours, neighbourKey{brLAN, host4}) }, "the neighbour 192.168.1.20 on br-lan is not resolved"},
	{"a neighbour that failed", func(f *fixture) { f.w.neighbours[neighbourKey{eth0, gate4}] = neighbour{gateMAC, 0x20} }, "the neighbour 203.0.113.1 on eth0 is not resolved"},
	{"a neighbour being looked for", func(f *fixture) { f.w.neighbours[neighbourKey{eth0, gate4}] = neighbour{gateMAC, 0x01} }, "is not resolved"},
	{"a neighbour without a MAC", func(f *fixture) { f.w.neighbours[neighbourKey{eth0, gate4}] = neighbour{state: 0x02} }, "is not resolved"},
	{"a neighbour with a group's MAC", func(f *fixture) {
		f.w.neighbours[neighbourKey{eth0, gate4}] = neighbour{[6]byte{1, 0, 0x5e}, 0x02}
	}, "is not resolved"},
	{"no fdb entry", func(f *fixture) { clear(f.w.fdb) }, "br-lan has not learnt behind which port 192.168.1.20 is"},
	{"the bridge's own MAC", func(f *fixture) { f.w.fdb[fdbKey{brLAN, 0, hostMAC}] = brLAN }, "192.168.1.20 is at br-lan itself"},
	{"the port has left the bridge", func(f *fixture) { f.edit(lan1, func(l *link) { l.master = 0 }) }, "192.168.1.20 is at br-lan itself"},
	{"not forwarding", func(f *fixture) { f.edit(lan1, func(l *link) { l.port.forwarding = false }) }, "lan1 of br-lan is not forwarding"},
	{"locked", func(f *fixture) { f.edit(lan1, func(l *link) { l.port.locked = true }) }, "lan1 of br-lan is locked"},
	{"VLAN not allowed", func(f *fixture) { f.filter(); delete(f.w.vlans, vlanKey{lan1, 1}) }, "VLAN 1 is not allowed on lan1"},
	{"VLAN in with a tag, out without", func(f *fixture) { f.filter(); f.w.vlans[vlanKey{lan1, 1}] = vlan{untagged: true} }, "VLAN 1 leaves lan1 without a tag"},
	{"the bridge itself has no VLAN", func(f *fixture) { f.filter(); delete(f.w.vlans, vlanKey{brLAN, 1}) }, "br-lan itself has no untagged VLAN"},
	{"the bridge itself has it tagged", func(f *fixture) { f.filter(); f.w.vlans[vlanKey{brLAN, 1}] = vlan{pvid: true} }, "br-lan itself has no untagged VLAN"},
	{"a VLAN device that the bridge's VLANs starve", func(f *fixture) {
		f.filter()
		f.addLink(link{index: vlanA, name: "br-lan.1", kind: "vlan", lower: brLAN, mac: lanMAC, vlan: vlanInfo{protocol: packet.TypeVLAN, id: 1}})
		f.w.neighbours[neighbourKey{vlanA, host4}] = neighbour{hostMAC, 0x02}
		f.route = func(q query) route {
			if q.dst == host4 {
				return route{dev: vlanA}
			}
			return f.defaultRoutes(q)
		}
	}, "VLAN 1 is not tagged on br-lan itself"},
	// PPPoE.
	{"no session", func(f *fixture) { f.addPPPoE("eth0"); f.w.sessions = nil }, "pppoe-wan has no PPPoE session"},
	{"two sessions", func(f *fixture) {
		f.addPPPoE("eth0")
		f.w.sessions = append(f.w.sessions, state.Session{ID: 9, Device: "eth0"})
	},
		"2 PPPoE sessions: the kernel doesn't tell which is pppoe-wan's"},
	{"two ppp devices", func(f *fixture) { f.addPPPoE("eth0"); f.addLink(link{index: 31, name: "l2tp-vpn", kind: "ppp"}) },
		"2 ppp devices: the kernel doesn't tell whose the PPPoE session is"},
	{"the session's device is gone", func(f *fixture) { f.addPPPoE("eth7") }, "eth7 of the PPPoE session is gone"},
	{"the session's device is down", func(f *fixture) { f.addPPPoE("eth0"); f.edit(eth0, func(l *link) { l.up = false }) }, "eth0 is down"},
	// Tunnels.
	{"a tunnel of IPv6", func(f *fixture) { f.addTunnel(); f.edit(tnl, func(l *link) { l.tunnel.proto = 41 }) }, "does not carry IPv4 only"},
	{"an encapsulation limit", func(f *fixture) { f.addTunnel(); f.edit(tnl, func(l *link) { l.tunnel.flags = 0 }) }, "adds an encapsulation limit"},
	{"copied traffic class", func(f *fixture) { f.addTunnel(); f.edit(tnl, func(l *link) { l.tunnel.flags |= 0x02 }) }, "options that engines don't have"},
	{"a tunnel with more", func(f *fixture) { f.addTunnel(); f.edit(tnl, func(l *link) { l.tunnel.odd = true }) }, "options that engines don't have"},
	{"another hop limit", func(f *fixture) { f.addTunnel(); f.edit(tnl, func(l *link) { l.tunnel.ttl = 0 }) }, "ds-wan has hop limit 0, engines write 64"},
	{"any remote end", func(f *fixture) {
		f.addTunnel()
		f.edit(tnl, func(l *link) { l.tunnel.remote = netip.IPv6Unspecified() })
	}, "does not name both its ends"},
	{"a foreign local end", func(f *fixture) { f.addTunnel(); delete(f.w.addresses, tnlLocal) }, "the local end 2001:db8:2::5 of ds-wan is not the router's"},
	{"no outer route", func(f *fixture) {
		f.addTunnel()
		next := f.route
		f.route = func(q query) route {
			if q.dst == tnlRemote {
				return route{refusal: "no way to the concentrator"}
			}
			return next(q)
		}
	}, "no way to the concentrator"},
	{"a tunnel in itself", func(f *fixture) {
		f.addTunnel()
		f.route = func(q query) route {
			if q.dst == host4 {
				return route{dev: brLAN}
			}
			return route{dev: tnl}
		}
	}, "ds-wan is a tunnel in a tunnel"},
	{"the outer neighbour", func(f *fixture) { f.addTunnel(); delete(f.w.neighbours, neighbourKey{eth0, gate6}) }, "the neighbour fe80::1 on eth0 is not resolved"},
}

// TestRefuse: each condition of the path, broken alone, with the owner's words.
func TestRefuse(t *testing.T) {
	for _, c := range refuseCases {
		t.Run(c.what, func(t *testing.T) {
			f := newFixture()
			c.make(f)
			res := f.resolve(t)
			if !strings.Contains(res.reason, c.reason) || res.reason == "" {
				t.Errorf("reason %q, want %q", res.reason, c.reason)
			}
			if res.path != (path{}) && res.reason != "" {
				t.Errorf("refused, but with a path: %+v", res.path)
			}
		})
	}
}

// A refused end says what it went by, so that the flow is judged again when
// that changes.
func TestUses(t *testing.T) {
	f := newFixture()
	delete(f.w.neighbours, neighbourKey{brLAN, host4})
	r := newResolver(bit, f.ports, f.w, newTunnels())
	k := endKey{brLAN, host4, false}
	e, _ := r.end(k)
	if e.refusal == "" {
		t.Fatal("not refused")
	}
	if r.forget(map[use]bool{{neighbour: neighbourKey{brLAN, gate4}}: true}) || e.stale {
		t.Error("another neighbour made it stale")
	}
	if !r.forget(map[use]bool{{neighbour: neighbourKey{brLAN, host4}}: true}) || !e.stale {
		t.Error("it is not stale")
	}
	f.w.neighbours[neighbourKey{brLAN, host4}] = neighbour{hostMAC, 0x02}
	if e, _ = r.end(k); e.refusal != "" {
		t.Fatal(e.refusal)
	}
	if !r.forget(map[use]bool{{fdb: fdbKey{brLAN, 0, hostMAC}}: true}) || !e.stale {
		t.Error("a move in the bridge did not make it stale")
	}
}
