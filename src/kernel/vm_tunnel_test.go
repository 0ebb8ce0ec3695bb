// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"testing"

	"fastpath/src/state"
)

// TestVMTunnels: what ip has made is what Observe tells, and the other end's route
// says what is below.
func TestVMTunnels(t *testing.T) {
	if !needVM(t) {
		return
	}
	run(t, "ip link add wan type veth peer name line")
	for _, line := range []string{"addr add 192.0.2.1/24 dev wan", "addr add 2001:db8::1/64 dev wan nodad", "link set wan up", "link set line up"} {
		run(t, "ip "+line)
	}
	const ends4, ends6 = " local 192.0.2.1 remote 192.0.2.2", " local 2001:db8::1 remote 2001:db8::2"
	k := newKernel(t)
	for _, c := range []struct {
		made string // ip link add name tnl type …
		want state.Tunnel
		wan  bool // the packets leave by wan
	}{
		{"ipip" + ends4, state.Tunnel{Mode: "ipip"}, true},
		{"ipip local 192.0.2.1 remote 203.0.113.1", state.Tunnel{Mode: "ipip"}, false},
		{"ipip tos inherit" + ends4, state.Tunnel{Mode: "ipip"}, true},
		{"ipip tos 0x48" + ends4, state.Tunnel{Mode: "ipip", Odd: "tos 0x48"}, false},
		{"ipip remote 192.0.2.2", state.Tunnel{Mode: "ipip", Odd: "local any"}, false},
		{"ipip local 192.0.2.1", state.Tunnel{Mode: "ipip", Odd: "remote any"}, false},
		{"ipip fwmark 7" + ends4, state.Tunnel{Mode: "ipip", Odd: "fwmark 0x7"}, false},
		{"ipip external", state.Tunnel{Mode: "ipip", Odd: "external"}, false},
		{"ip6tnl mode ip6ip6 encaplimit none" + ends6, state.Tunnel{Mode: "ip6ip6"}, true},
		{"ip6tnl mode ipip6 encaplimit none" + ends6, state.Tunnel{Mode: "ipip6"}, true},
		{"ip6tnl mode any encaplimit none" + ends6, state.Tunnel{Mode: "any"}, true},
		{"ip6tnl mode ip6ip6" + ends6, state.Tunnel{Mode: "ip6ip6", Odd: "encaplimit 4"}, false},
		{"ip6tnl mode ip6ip6 encaplimit none tclass inherit" + ends6, state.Tunnel{Mode: "ip6ip6", Odd: "tclass inherit"}, false},
		{"ip6tnl mode ip6ip6 encaplimit none flowlabel inherit" + ends6, state.Tunnel{Mode: "ip6ip6", Odd: "flowlabel inherit"}, false},
		{"ip6tnl mode ip6ip6 encaplimit none tclass 0x48" + ends6, state.Tunnel{Mode: "ip6ip6", Odd: "tclass and flowlabel 0x4800000"}, false},
		{"ip6tnl mode ip6ip6 encaplimit none dscp inherit" + ends6, state.Tunnel{Mode: "ip6ip6", Odd: "dscp inherit"}, false},
	} {
		run(t, "ip link add name tnl type "+c.made)
		o := observe(t, k)
		if c.wan {
			c.want.Lower = link(t, o, "wan").Index
		}
		if got := link(t, o, "tnl").Tunnel; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.made, got, c.want)
		}
		run(t, "ip link del tnl")
	}
	run(t, "ip link add name tnl type ipip dev wan"+ends4)
	o := observe(t, k)
	wan := link(t, o, "wan").Index
	if got := link(t, o, "tnl").Tunnel; got != (state.Tunnel{Mode: "ipip", Lower: wan, Bound: wan}) {
		t.Errorf("bound to wan: %+v", got)
	}
}

// TestReadTunnel: OpenWrt's kernel tells the rules of MAP-E in an attribute that
// no other has; something empty or cut off is nothing.
func TestReadTunnel(t *testing.T) {
	var w writer
	w.u32(iptunFlags, ip6tnlNoLimit)
	w.attr(iptunProto, []byte{4})
	w.attr(iptunLocal, []byte{15: 1})
	w.attr(iptunRemote, []byte{15: 2})
	var plain tunnel
	plain.read(w.b)
	if plain.mode("ip6tnl") != "ipip6" || plain.odd("ip6tnl") != "" {
		t.Errorf("%+v: mode %q, odd %q", plain, plain.mode("ip6tnl"), plain.odd("ip6tnl"))
	}
	rules := plain
	w = writer{}
	w.nest(iptunFwmark+1, func() { w.attr(1, []byte{1, 2, 3, 4}) })
	if rules.read(w.b); rules.odd("ip6tnl") != "fmrs" {
		t.Errorf("rules of MAP-E: odd %q", rules.odd("ip6tnl"))
	}
	cut := plain
	for typ := uint16(iptunLocal); typ <= iptunFwmark; typ++ {
		w = writer{}
		w.attr(typ, nil)
		cut.read(w.b)
	}
	if cut.odd("ip6tnl") != "external" || cut.remote.IsValid() { // external is a flag: it has no value
		t.Errorf("attributes without values: %+v", cut)
	}
	if none := readTunnel(nil); none.odd("ipip") != "remote any" {
		t.Errorf("nothing: %q", none.odd("ipip"))
	}
}
