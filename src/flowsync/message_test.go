// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/packet"
	"fastpath/src/state"
)

// linkMessage is a message of RTM_GETLINK, as fill has it.
func linkMessage(index int, flags uint32, fill func(w *writer)) []byte {
	w := writer{b: make([]byte, ifinfomsgLen)}
	binary.NativeEndian.PutUint32(w.b[4:], uint32(index))
	binary.NativeEndian.PutUint32(w.b[8:], flags)
	fill(&w)
	return w.b
}

func (w *writer) u16(typ, v uint16) { w.attr(typ, binary.NativeEndian.AppendUint16(nil, v)...) }

// info writes IFLA_LINKINFO.
func info(kind string, data func(w *writer)) func(w *writer) {
	return func(w *writer) {
		w.attr(unix.IFLA_IFNAME, []byte("dev\x00")...)
		w.u32(unix.IFLA_MTU, 1500)
		w.nest(unix.IFLA_LINKINFO, func() {
			w.attr(unix.IFLA_INFO_KIND, append([]byte(kind), 0)...)
			w.nest(unix.IFLA_INFO_DATA, func() { data(w) })
		})
	}
}

// dslite writes the attributes of a tunnel that engines can do.
func dslite(w *writer) {
	w.u32(iptunLink, 3)
	w.attr(iptunLocal, tnlLocal.AsSlice()...)
	w.attr(iptunRemote, tnlRemote.AsSlice()...)
	w.attr(iptunTTL, 64)
	w.u32(iptunFlowInfo, 0)
	w.u32(iptunFlags, 0x30001)
	w.attr(iptunProto, 4)
	w.u16(iptunEncapType, 0)
	w.u32(iptunFwmark, 0)
	w.attr(iptunFwmark + 1) // OpenWrt's list of mapping rules, empty
}

// tunnelWith is one with something more.
func tunnelWith(more func(w *writer)) func(w *writer) {
	return info("ip6tnl", func(w *writer) { dslite(w); more(w) })
}

var (
	base = tunnelInfo{local: tnlLocal, remote: tnlRemote, lower: 3, proto: 4, ttl: 64, flags: 0x30001}
	odd  = tunnelInfo{local: tnlLocal, remote: tnlRemote, lower: 3, proto: 4, ttl: 64, flags: 0x30001, odd: true}
)

var linkCases = []struct {
	what string
	fill func(w *writer)
	want link
}{
	{"a VLAN", info("vlan", func(w *writer) { w.u16(unix.IFLA_VLAN_ID, 35); w.be16(unix.IFLA_VLAN_PROTOCOL, packet.TypeVLAN) }),
		link{kind: "vlan", vlan: vlanInfo{protocol: packet.TypeVLAN, id: 35}}},
	{"a service VLAN with priorities", info("vlan", func(w *writer) {
		w.u16(unix.IFLA_VLAN_ID, 7)
		w.be16(unix.IFLA_VLAN_PROTOCOL, packet.TypeQinQ)
		w.nest(unix.IFLA_VLAN_EGRESS_QOS, func() { w.attr(1, 0, 0, 0, 0, 6, 0, 0, 6) })
	}), link{kind: "vlan", vlan: vlanInfo{protocol: packet.TypeQinQ, id: 7, priorities: true}}},
	{"a VLAN with priorities that are 0", info("vlan", func(w *writer) {
		w.nest(unix.IFLA_VLAN_EGRESS_QOS, func() { w.attr(1, 5, 0, 0, 5, 0, 0, 0, 0) })
	}), link{kind: "vlan", vlan: vlanInfo{protocol: packet.TypeVLAN}}},
	{"a bridge that filters", info("bridge", func(w *writer) {
		w.attr(unix.IFLA_BR_VLAN_FILTERING, 1)
		w.be16(unix.IFLA_BR_VLAN_PROTOCOL, packet.TypeQinQ)
	}), link{kind: "bridge", bridge: bridgeInfo{filtering: true, protocol: packet.TypeQinQ}}},
	{"DS-Lite", info("ip6tnl", dslite), link{kind: "ip6tnl", tunnel: base}},
	{"a tunnel with a flow label", tunnelWith(func(w *writer) { w.be32(iptunFlowInfo, 1) }), link{kind: "ip6tnl", tunnel: odd}},
	{"a tunnel in UDP", tunnelWith(func(w *writer) { w.u16(iptunEncapType, 1) }), link{kind: "ip6tnl", tunnel: odd}},
	{"a tunnel with a mark", tunnelWith(func(w *writer) { w.u32(iptunFwmark, 9) }), link{kind: "ip6tnl", tunnel: odd}},
	{"a tunnel without ends", tunnelWith(func(w *writer) { w.attr(iptunCollect) }), link{kind: "ip6tnl", tunnel: odd}},
	{"MAP-E's mapping rules", tunnelWith(func(w *writer) { w.attr(iptunFwmark+1, 1, 2, 3, 4) }), link{kind: "ip6tnl", tunnel: odd}},
	{"a bridge's port that is blocked and locked", func(w *writer) {
		info("veth", func(*writer) {})(w)
		w.u32(unix.IFLA_MASTER, 10)
		w.nest(unix.IFLA_LINKINFO, func() {
			w.attr(unix.IFLA_INFO_SLAVE_KIND, []byte("bridge\x00")...)
			w.nest(unix.IFLA_INFO_SLAVE_DATA, func() { w.attr(unix.IFLA_BRPORT_STATE, 4); w.attr(unix.IFLA_BRPORT_LOCKED, 1) })
		})
	}, link{kind: "veth", master: 10, port: portInfo{ofBridge: true, locked: true}}},
	{"a bond's port", func(w *writer) {
		w.nest(unix.IFLA_LINKINFO, func() {
			w.attr(unix.IFLA_INFO_SLAVE_KIND, []byte("bond\x00")...)
			w.nest(unix.IFLA_INFO_SLAVE_DATA, func() { w.attr(unix.IFLA_BRPORT_STATE, 3) })
		})
		info("", func(*writer) {})(w)
	}, link{}},
	{"below is another namespace", func(w *writer) {
		info("macvlan", func(*writer) {})(w)
		w.u32(unix.IFLA_LINK, 5)
		w.u32(unix.IFLA_LINK_NETNSID, 0)
	}, link{kind: "macvlan"}},
}

// TestReadLink: kinds that the machine's kernel may lack, byte by byte.
func TestReadLink(t *testing.T) {
	for _, c := range linkCases {
		message := linkMessage(7, unix.IFF_UP, c.fill)
		c.want.index, c.want.name, c.want.mtu, c.want.up = 7, "dev", 1500, true
		if got, ok := readLink(message); !ok || got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", c.what, got, c.want)
		}
		for n := range message { // nothing that is cut off may panic
			readLink(message[:n:n])
		}
	}
}

func TestReadVLANs(t *testing.T) {
	w := writer{b: make([]byte, ifinfomsgLen)}
	w.b[4] = 3
	binary.NativeEndian.PutUint32(w.b[4:], 3)
	entry := func(flags, id uint16) []byte {
		return binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, flags), id)
	}
	w.nest(unix.IFLA_AF_SPEC, func() {
		w.attr(bridgeVLANInfo, entry(vlanInfoPVID|vlanInfoUntagged, 1)...)
		w.attr(bridgeVLANInfo, entry(vlanInfoRangeFrom, 10)...)
		w.attr(bridgeVLANInfo, entry(vlanInfoRangeTo, 12)...)
		w.attr(bridgeVLANInfo, entry(vlanInfoRangeTo, 0xffff)...)
		w.attr(bridgeVLANInfo, entry(vlanInfoUntagged, 20)...)
	})
	got := map[vlanKey]vlan{}
	readVLANs(w.b, func(k vlanKey, v vlan) { got[k] = v })
	want := map[vlanKey]vlan{{3, 1}: {true, true}, {3, 10}: {}, {3, 11}: {}, {3, 12}: {}, {3, 20}: {untagged: true}}
	if !maps.Equal(got, want) {
		t.Errorf("VLANs %v, want %v", got, want)
	}
	for n := range w.b {
		readVLANs(w.b[:n:n], func(vlanKey, vlan) {})
	}
}

func TestReadRules(t *testing.T) {
	rule := func(tos byte, fill func(w *writer)) []byte {
		w := writer{b: make([]byte, fibRuleHdrLen)}
		w.b[3] = tos
		fill(&w)
		return w.b
	}
	for _, c := range []struct {
		what string
		tos  byte
		fill func(w *writer)
		want rules
	}{
		{"a table", 0, func(w *writer) { w.u32(15, 254) }, rules{}},
		{"a mark", 0, func(w *writer) { w.u32(fraFwmark, 0x100) }, rules{marks: []uint32{0x100}}},
		{"mark 0 of a mask is ours", 0, func(w *writer) { w.u32(fraFwmark, 0); w.u32(16, 0xff) }, rules{}},
		{"a port", 0, func(w *writer) { w.attr(fraDportRange, 0, 1, 0, 1) }, rules{ports: true}},
		{"a protocol", 0, func(w *writer) { w.attr(fraIPProto, 6) }, rules{ports: true}},
		{"TOS", 0x10, func(w *writer) {}, rules{tos: true}},
		{"DSCP", 0, func(w *writer) { w.attr(fraDscp, 1) }, rules{tos: true}},
	} {
		var got rules
		got.read(rule(c.tos, c.fill))
		if !slices.Equal(got.marks, c.want.marks) || got.ports != c.want.ports || got.tos != c.want.tos {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

func TestReadRoute(t *testing.T) {
	for _, c := range []struct {
		what string
		typ  byte
		fill func(w *writer)
		want route // of refusal a part
	}{
		{"on the link", unix.RTN_UNICAST, func(w *writer) { w.u32(unix.RTA_OIF, 3) }, route{dev: 3}},
		{"a gateway and an MTU", unix.RTN_UNICAST, func(w *writer) {
			w.u32(unix.RTA_OIF, 3)
			w.attr(unix.RTA_GATEWAY, gate4.AsSlice()...)
			w.nest(unix.RTA_METRICS, func() { w.u32(unix.RTAX_MTU, 1400) })
		}, route{dev: 3, gateway: gate4, mtu: 1400}},
		{"a gateway of the other family", unix.RTN_UNICAST, func(w *writer) {
			w.u32(unix.RTA_OIF, 3)
			w.attr(unix.RTA_VIA, append(binary.NativeEndian.AppendUint16(nil, unix.AF_INET6), gate6.AsSlice()...)...)
		}, route{dev: 3, gateway: gate6}},
		{"local", unix.RTN_LOCAL, func(w *writer) { w.u32(unix.RTA_OIF, 1) }, route{refusal: "the router's own address"}},
		{"broadcast", unix.RTN_BROADCAST, func(w *writer) { w.u32(unix.RTA_OIF, 1) }, route{refusal: "not a unicast one"}},
		{"several", unix.RTN_UNICAST, func(w *writer) { w.attr(unix.RTA_MULTIPATH, 0, 0, 0, 0) }, route{refusal: "several next hops"}},
		{"MPLS", unix.RTN_UNICAST, func(w *writer) { w.u32(unix.RTA_OIF, 3); w.u16(unix.RTA_ENCAP_TYPE, 1) }, route{refusal: "encapsulates"}},
		{"no device", unix.RTN_UNICAST, func(w *writer) {}, route{refusal: "names no device"}},
	} {
		w := writer{b: make([]byte, rtmsgLen)}
		w.b[7] = c.typ
		c.fill(&w)
		got := readRoute(w.b, far4)
		if !strings.Contains(got.refusal, c.want.refusal) || (got.refusal == "") != (c.want.refusal == "") {
			t.Errorf("%s: refusal %q, want %q", c.what, got.refusal, c.want.refusal)
		}
		if got.refusal == "" && got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

func TestSessions(t *testing.T) {
	id := binary.NativeEndian.Uint16([]byte{0x00, 0x1f}) // session 31 as the CPU reads it
	line := "Id       Address              Device\n" +
		strings.ToUpper(hex32(id)) + " 02:00:00:00:02:09 eth0.35\nbad line\nZZ 02:00:00:00:02:09 eth0\n"
	got := state.ParseSessions(strings.NewReader(line))
	want := []state.Session{{ID: 31, Peer: concMAC, Device: "eth0.35"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func hex32(id uint16) string {
	const digits = "0123456789abcdef"
	b := []byte("00000000")
	for i := 7; id > 0; i, id = i-1, id>>4 {
		b[i] = digits[id&15]
	}
	return string(b)
}

// TestNote: which messages about neighbours and hosts change anything.
func TestNote(t *testing.T) {
	message := func(family byte, dev int, state uint16, flags byte, fill func(w *writer)) []byte {
		w := writer{b: make([]byte, ndmsgLen)}
		w.b[0], w.b[10] = family, flags
		binary.NativeEndian.PutUint32(w.b[4:], uint32(dev))
		binary.NativeEndian.PutUint16(w.b[8:], state)
		fill(&w)
		return w.b
	}
	host := func(mac [6]byte) func(w *writer) {
		return func(w *writer) { w.attr(unix.NDA_DST, host4.AsSlice()...); w.attr(unix.NDA_LLADDR, mac[:]...) }
	}
	port := func(w *writer) { w.attr(unix.NDA_LLADDR, hostMAC[:]...); w.u32(unix.NDA_MASTER, brLAN) }
	w := newWorld()
	for _, c := range []struct {
		what string
		body []byte
		gone bool
		want bool
	}{
		{"new", message(unix.AF_INET, brLAN, unix.NUD_REACHABLE, 0, host(hostMAC)), false, true},
		{"stale", message(unix.AF_INET, brLAN, unix.NUD_STALE, 0, host(hostMAC)), false, false},
		{"a proxy's", message(unix.AF_INET, brLAN, unix.NUD_REACHABLE, unix.NTF_PROXY, host(otherMAC)), false, false},
		{"another MAC", message(unix.AF_INET, brLAN, unix.NUD_STALE, 0, host(otherMAC)), false, true},
		{"failed", message(unix.AF_INET, brLAN, unix.NUD_FAILED, 0, host(otherMAC)), false, true},
		{"deleted after it failed", message(unix.AF_INET, brLAN, unix.NUD_FAILED, 0, host(otherMAC)), true, false},
		{"a port learnt", message(unix.AF_BRIDGE, lan1, unix.NUD_REACHABLE, 0, port), false, true},
		{"the same again", message(unix.AF_BRIDGE, lan1, unix.NUD_STALE, 0, port), false, false},
		{"the device's own filter", message(unix.AF_BRIDGE, lan2, unix.NUD_PERMANENT, unix.NTF_SELF,
			func(w *writer) { w.attr(unix.NDA_LLADDR, hostMAC[:]...) }), false, false},
		{"moved", message(unix.AF_BRIDGE, lan2, unix.NUD_REACHABLE, 0, port), false, true},
		{"gone from where it was", message(unix.AF_BRIDGE, lan1, unix.NUD_REACHABLE, 0, port), true, false},
		{"gone", message(unix.AF_BRIDGE, lan2, unix.NUD_REACHABLE, 0, port), true, true},
	} {
		if _, got := w.noteNeighbour(c.body, c.gone); got != c.want {
			t.Errorf("%s: changed %v", c.what, got)
		}
		for n := range c.body {
			newWorld().noteNeighbour(c.body[:n:n], c.gone)
		}
	}
	if len(w.neighbours) != 0 || len(w.fdb) != 0 {
		t.Errorf("left: %v %v", w.neighbours, w.fdb)
	}
}

// TestReadConnection: what is cut off never panics, and what isn't TCP or UDP
// doesn't interest.
func TestReadConnection(t *testing.T) {
	orig, reply := loadTuple(5, packet.TCP)
	w := writer{b: nfHeader(unix.AF_INET)}
	w.nest(ctaTupleOrig, func() { writeTuple(&w, &orig) })
	w.nest(ctaTupleReply, func() { writeTuple(&w, &reply) })
	w.be32(ctaStatus, 0x1e)
	w.be32(ctaTimeout, 99)
	w.be32(ctaMark, bit|1)
	w.be32(ctaID, 77)
	beLiberal(&w)
	whole := len(w.b)
	got, ok := readConnection(w.b)
	want := connection{orig: orig, reply: reply, id: 77, mark: bit | 1, status: 0x1e, timeout: 99, liberal: true}
	if !ok || got != want {
		t.Errorf("%+v, want\n%+v", got, want)
	}
	for n := range whole {
		readConnection(w.b[:n:n])
	}
	w.be16(ctaZone, 3)
	w.nest(ctaHelp, func() {})
	if got, _ := readConnection(w.b); !got.zone || !got.helper {
		t.Errorf("zone %v, helper %v", got.zone, got.helper)
	}
	icmp, icmpReply := orig, reply
	icmp.Proto, icmpReply.Proto = 1, 1
	w = writer{b: nfHeader(unix.AF_INET)}
	w.nest(ctaTupleOrig, func() { writeTuple(&w, &icmp) })
	w.nest(ctaTupleReply, func() { writeTuple(&w, &icmpReply) })
	if _, ok := readConnection(w.b); ok {
		t.Error("ICMP interests")
	}
}

func TestTunnels(t *testing.T) {
	s, tun := newSink(t), newTunnels()
	a, b := netip.MustParseAddr("2001:db8::a"), netip.MustParseAddr("2001:db8::b")
	first := tun.id(a, b)
	if first == 0 || tun.id(a, b) != first || tun.id(b, a) == first {
		t.Error("ids don't tell tunnels apart")
	}
	e := &end{wire: packet.Wire{Local: a, Remote: b, Tunnel: first}}
	if err := tun.tell(s, e); err != nil || s.tun[first] != (tunnelEnds{a, b}) {
		t.Errorf("the Sink has %v, %v", s.tun, err)
	}
	if err := tun.keep(s, map[uint16]bool{first: true}); err != nil || len(s.tun) != 1 || len(tun.ids) != 1 {
		t.Errorf("kept %v, the Sink %v, %v", tun.ids, s.tun, err)
	}
	if err := tun.keep(s, nil); err != nil || len(s.tun) != 0 || len(tun.ids) != 0 {
		t.Errorf("left %v, the Sink %v, %v", tun.ids, s.tun, err)
	}
}
