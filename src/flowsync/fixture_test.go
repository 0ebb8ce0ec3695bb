// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"net/netip"
	"testing"

	"fastpath/src/packet"
	"fastpath/src/state"
)

// The router of the table tests: eth0 is the WAN, lan1 and lan2 are ports of
// br-lan with engines, lan3 is one without.
//
//	192.168.1.20 and 2001:db8:1::20 (host) -- lan1 -- br-lan | eth0 -- 203.0.113.1 and fe80::1 (gateway)
const (
	eth0  = 2
	lan1  = 3
	lan2  = 4
	lan3  = 5
	brLAN = 10
	vlanA = 20 // eth0.35
	vlanB = 21 // eth0.35.7
	ppp   = 30 // pppoe-wan
	tnl   = 40 // ds-wan

	bit = 0x40000000
)

var (
	eth0MAC   = [6]byte{2, 0, 0, 0, 0, 2}
	lanMAC    = [6]byte{2, 0, 0, 0, 0, 3} // of br-lan, lan1
	lan2MAC   = [6]byte{2, 0, 0, 0, 0, 4}
	hostMAC   = [6]byte{2, 0, 0, 0, 1, 20}
	otherMAC  = [6]byte{2, 0, 0, 0, 1, 21}
	gateMAC   = [6]byte{2, 0, 0, 0, 2, 1}
	concMAC   = [6]byte{2, 0, 0, 0, 2, 9}
	host4     = netip.MustParseAddr("192.168.1.20")
	host6     = netip.MustParseAddr("2001:db8:1::20")
	gate4     = netip.MustParseAddr("203.0.113.1")
	gate6     = netip.MustParseAddr("fe80::1")
	wan4      = netip.MustParseAddr("203.0.113.5") // the router's own
	far4      = netip.MustParseAddr("198.51.100.9")
	far6      = netip.MustParseAddr("2001:db8:9::9")
	tnlLocal  = netip.MustParseAddr("2001:db8:2::5")
	tnlRemote = netip.MustParseAddr("2001:db8:aaaa::1")
)

// fixture is a router, a connection through it, and the kernel's routes.
type fixture struct {
	w     *world
	ports map[int]Port
	c     connection
	route func(q query) route
}

// newFixture is a masqueraded TCP connection of the host's.
func newFixture() *fixture {
	f := &fixture{w: newWorld(), ports: map[int]Port{}}
	up := func(l link) {
		l.up, l.carrier = true, true
		if l.mtu == 0 {
			l.mtu = 1500
		}
		f.w.links[l.index] = l
	}
	onBridge := portInfo{ofBridge: true, forwarding: true}
	up(link{index: eth0, name: "eth0", mac: eth0MAC})
	up(link{index: lan1, name: "lan1", mac: lanMAC, master: brLAN, port: onBridge})
	up(link{index: lan2, name: "lan2", mac: lan2MAC, master: brLAN, port: onBridge})
	up(link{index: lan3, name: "lan3", mac: lan2MAC, master: brLAN, port: onBridge})
	up(link{index: brLAN, name: "br-lan", kind: "bridge", mac: lanMAC, bridge: bridgeInfo{protocol: packet.TypeVLAN}})
	for slot, i := range []int{eth0, lan1, lan2} {
		f.ports[i] = Port{Name: f.w.links[i].name, Ifindex: i, Slot: uint16(slot), Engine: state.EngineXDP}
	}
	f.w.addresses[wan4], f.w.addresses[tnlLocal] = true, true
	for addr, n := range map[neighbourKey][6]byte{
		{brLAN, host4}: hostMAC, {brLAN, host6}: hostMAC, {eth0, gate4}: gateMAC, {eth0, gate6}: gateMAC,
	} {
		f.w.neighbours[addr] = neighbour{n, 0x02} // NUD_REACHABLE
	}
	f.w.fdb[fdbKey{brLAN, 0, hostMAC}] = lan1
	f.tcp(host4, far4, wan4)
	f.route = f.defaultRoutes
	return f
}

// tcp makes the connection from src to dst; its source becomes nat unless that is src.
func (f *fixture) tcp(src, dst, nat netip.Addr) {
	f.c = connection{
		orig:  packet.Tuple{Proto: packet.TCP, Src: netip.AddrPortFrom(src, 40000), Dst: netip.AddrPortFrom(dst, 443)},
		reply: packet.Tuple{Proto: packet.TCP, Src: netip.AddrPortFrom(dst, 443), Dst: netip.AddrPortFrom(nat, 40000)},
		mark:  bit, status: statusSeenReply | statusAssured | statusConfirmed, tcpState: tcpEstablished, id: 7,
	}
}

// defaultRoutes: the hosts are on br-lan, all else is behind the gateway.
func (f *fixture) defaultRoutes(q query) route {
	switch {
	case q.dst == host4 || q.dst == host6:
		return route{dev: brLAN}
	case q.dst.Is4():
		return route{dev: eth0, gateway: gate4}
	}
	return route{dev: eth0, gateway: gate6}
}

// via makes everything but the hosts be behind dev.
func (f *fixture) via(dev int) {
	f.route = func(q query) route {
		if r := f.defaultRoutes(q); r.dev != eth0 || q.dst == tnlRemote {
			return r
		}
		return route{dev: dev}
	}
}

func (f *fixture) edit(index int, change func(*link)) {
	l := f.w.links[index]
	change(&l)
	f.w.links[index] = l
}

func (f *fixture) addLink(l link) {
	l.up, l.carrier = true, true
	if l.mtu == 0 {
		l.mtu = 1500
	}
	f.w.links[l.index] = l
}

// addVLAN puts eth0.35 on eth0, and the gateway behind it.
func (f *fixture) addVLAN(protocol uint16) {
	f.addLink(link{index: vlanA, name: "eth0.35", kind: "vlan", lower: eth0, mac: eth0MAC,
		vlan: vlanInfo{protocol: protocol, id: 35}})
	f.w.neighbours[neighbourKey{vlanA, gate4}] = neighbour{gateMAC, 0x04}
	f.route = func(q query) route {
		r := f.defaultRoutes(q)
		if r.dev == eth0 {
			r.dev = vlanA
		}
		return r
	}
}

// addPPPoE puts pppoe-wan, session 7, on the device lower.
func (f *fixture) addPPPoE(lower string) {
	f.addLink(link{index: ppp, name: "pppoe-wan", kind: "ppp", mtu: 1492})
	f.w.sessions = []state.Session{{ID: 7, Peer: concMAC, Device: lower}}
	f.via(ppp)
}

// addTunnel puts ds-wan over eth0.
func (f *fixture) addTunnel() {
	f.addLink(link{index: tnl, name: "ds-wan", kind: "ip6tnl", mtu: 1460, tunnel: tunnelInfo{
		local: tnlLocal, remote: tnlRemote, proto: 4, ttl: 64, flags: tunnelNoLimit}})
	f.c.reply.Dst = f.c.orig.Src // the concentrator does the NAT
	f.via(tnl)
}

// filter makes br-lan filter VLANs: it has VLAN 1 itself, lan1 has it without a tag.
func (f *fixture) filter() {
	f.edit(brLAN, func(l *link) { l.bridge.filtering = true })
	f.w.vlans[vlanKey{brLAN, 1}] = vlan{pvid: true, untagged: true}
	f.w.vlans[vlanKey{lan1, 1}] = vlan{pvid: true, untagged: true}
	f.w.fdb = map[fdbKey]int{{brLAN, 1, hostMAC}: lan1}
}

// resolve answers what the resolver asks until it is done.
func (f *fixture) resolve(t testing.TB) resolution {
	t.Helper()
	r := newResolver(bit, f.ports, f.w, newTunnels())
	for range 10 {
		res, ready := r.resolve(&f.c)
		if ready {
			return res
		}
		if len(r.missing) == 0 {
			t.Fatal("not ready, and asks for nothing")
		}
		for q := range r.missing {
			r.known[q] = f.route(q)
		}
		clear(r.missing)
	}
	t.Fatal("never ready")
	return resolution{}
}
