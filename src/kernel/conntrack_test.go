// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"os"
	"reflect"
	"slices"
	"testing"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

// TestConnections reads what the conntrack tool put in. A kernel without
// flowtables has no offloaded ones, so another bit of the status is asked for.
func TestConnections(t *testing.T) {
	testkit.Need(t, has("conntrack"), "needs conntrack")
	inNamespace(t)
	must(t, os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_acct", []byte("1"), 0o644))
	for _, line := range []string{
		"conntrack -I -p tcp -s 192.0.2.1 -d 198.51.100.2 --sport 1000 --dport 443 --reply-src 198.51.100.2 --reply-dst 203.0.113.9 --reply-port-src 443 --reply-port-dst 1024 --state ESTABLISHED -u ASSURED -t 100 -m 5",
		"conntrack -I -p udp -s 2001:db8::1 -d 2001:db8:1::2 --sport 53 --dport 5353 -u ASSURED -t 100",
		"conntrack -I -p udp -s 192.0.2.7 -d 198.51.100.2 --sport 7 --dport 7 -t 100",
	} {
		run(t, line)
	}
	k := newKernel(t)
	c, err := k.nfnetlink()
	must(t, err)
	defer c.close()
	var got []state.Flow
	must(t, c.connections(state.StatusAssured, func() { got = nil }, func(f state.Flow) { got = append(got, f) }))
	slices.SortFunc(got, func(a, b state.Flow) int { return cmp.Compare(a.Proto, b.Proto) })
	want := []state.Flow{
		{Family: "ipv4", Proto: "tcp", Mark: 5, Counted: true,
			Orig:  state.Tuple{Src: "192.0.2.1", Dst: "198.51.100.2", SrcPort: 1000, DstPort: 443},
			Reply: state.Tuple{Src: "198.51.100.2", Dst: "203.0.113.9", SrcPort: 443, DstPort: 1024}},
		{Family: "ipv6", Proto: "udp", Counted: true,
			Orig:  state.Tuple{Src: "2001:db8::1", Dst: "2001:db8:1::2", SrcPort: 53, DstPort: 5353},
			Reply: state.Tuple{Src: "2001:db8:1::2", Dst: "2001:db8::1", SrcPort: 5353, DstPort: 53}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("connections\n%+v, want\n%+v", got, want)
	}
	flows, err := k.Flows()
	if err != nil || len(flows) != 0 {
		t.Errorf("nothing is offloaded: %+v, %v", flows, err)
	}
}

func TestReadCounts(t *testing.T) {
	w := writer{b: nfHeader(2, 0)}
	w.be32(ctaStatus, state.StatusOffload|8)
	w.nest(ctaCounterOrig, func() {
		w.attr(ctaPackets, []byte{0, 0, 0, 0, 0, 0, 0, 9})
		w.attr(ctaBytes, []byte{0, 0, 0, 1, 0, 0, 0, 2})
	})
	w.nest(ctaTupleOrig, func() { w.nest(ctaTupleProto, func() { w.attr(ctaProtoNum, []byte{132}) }) })
	f, status := readConnection(w.b)
	if f.Orig.Packets != 9 || f.Orig.Bytes != 1<<32+2 || !f.Counted || f.Proto != "132" || status&state.StatusOffload == 0 {
		t.Errorf("%+v, status %#x", f, status)
	}
}

func TestPlaces(t *testing.T) {
	links := []state.Link{
		{Index: 1, Name: "br-lan", Kind: "bridge"},
		{Index: 2, Name: "eth0"},
		{Index: 3, Name: "eth0.35", Kind: "vlan", VLAN: 35, Lower: 2},
		{Index: 4, Name: "pppoe-wan", Kind: "ppp"},
		{Index: 5, Name: "eth0.5", Kind: "vlan", VLAN: 5, QinQ: true, Lower: 2},
		{Index: 6, Name: "eth0.5.7", Kind: "vlan", VLAN: 7, Lower: 5},
		{Index: 7, Name: "lan1", Kind: "dsa", Lower: 2},
		{Index: 8, Name: "pppoe-wanb", Kind: "ppp"},
		{Index: 9, Name: "loop", Kind: "vlan", VLAN: 1, Lower: 9},
		{Index: 10, Name: "orphan", Kind: "vlan", VLAN: 2, Lower: 99},
	}
	one := []state.Session{{ID: 7, Device: "eth0.35"}}
	two := append(one, state.Session{ID: 9, Device: "eth0"})
	netifd := []state.Interface{
		{Name: "wan", Device: "eth0.35", L3Device: "pppoe-wan"}, {Name: "wanb", Device: "eth0", L3Device: "pppoe-wanb"}}
	for _, c := range []struct {
		what       string
		link       int
		ppps       int
		sessions   []state.Session
		interfaces []state.Interface
		want       place
	}{
		{"a bridge", 1, 0, nil, nil, place{"br-lan", ""}},
		{"a NIC", 2, 0, nil, nil, place{"eth0", ""}},
		{"a VLAN", 3, 0, nil, nil, place{"eth0", "vlan 35"}},
		{"a VLAN in a service VLAN", 6, 0, nil, nil, place{"eth0", "vlan 7 over 802.1ad vlan 5"}},
		{"a port of a switch", 7, 0, nil, nil, place{"lan1", ""}},
		{"PPPoE over a VLAN", 4, 1, one, nil, place{"eth0", "pppoe session 7 over vlan 35"}},
		{"two ppp devices, one session, nobody knows", 4, 2, one, nil, place{"pppoe-wan", "ppp"}},
		{"two sessions, netifd knows", 4, 2, two, netifd, place{"eth0", "pppoe session 7 over vlan 35"}},
		{"the other of two", 8, 2, two, netifd, place{"eth0", "pppoe session 9"}},
		{"ppp without a session", 4, 1, nil, nil, place{"pppoe-wan", "ppp"}},
		{"a link that is gone", 77, 0, nil, nil, place{}},
		{"a VLAN whose parent is gone", 10, 0, nil, nil, place{"orphan", "vlan 2"}},
	} {
		m := &portMap{links: map[int]state.Link{}, index: map[string]int{}, sessions: c.sessions, interfaces: c.interfaces, ppps: c.ppps}
		for _, l := range links {
			m.links[l.Index], m.index[l.Name] = l, l.Index
		}
		if got := m.descend(c.link); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
		m.descend(9) // a loop ends
	}
}

// TestOneLookupPerAddress: a router with many flows has few addresses.
func TestOneLookupPerAddress(t *testing.T) {
	lookups := 0
	m := &portMap{
		route: func(string) (int, error) { lookups++; return 2, nil },
		links: map[int]state.Link{2: {Index: 2, Name: "eth0"}}, seen: map[string]place{},
	}
	for range 100 {
		if p := m.place("192.0.2.1"); p.port != "eth0" {
			t.Fatalf("place %+v", p)
		}
		m.place("192.0.2.2")
	}
	if lookups != 2 {
		t.Errorf("%d lookups for two addresses", lookups)
	}
}

func TestBothEncaps(t *testing.T) {
	for _, c := range [][3]string{
		{"", "", ""}, {"vlan 7", "", "vlan 7"}, {"", "pppoe session 1", "pppoe session 1"},
		{"vlan 7", "vlan 35", "in: vlan 7; out: vlan 35"},
	} {
		if got := bothEncaps(c[0], c[1]); got != c[2] {
			t.Errorf("in %q out %q: %q", c[0], c[1], got)
		}
	}
}
