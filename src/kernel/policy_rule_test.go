// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

// policyRules are matches of policies, and what nft prints for them.
var policyRules = []struct {
	rule   state.Rule
	listed string
}{
	{state.Return.When(state.Is(state.KeyPackets, "20")), `ct packets < 20 return`},
	{policy("a", state.Return, state.Is(state.KeyDirection, "original"), state.Is(state.KeyIif, "@zone-lan"), state.Is(state.KeyOif, "@zone-wan")),
		`ct direction original iifname @zone-lan oifname @zone-wan counter packets 0 bytes 0 return`},
	{policy("a", state.Return, state.Is(state.KeyDirection, "reply"), state.Is(state.KeyFamily, "ipv6"), state.Is(state.KeyL4Proto, "udp")),
		`ct direction reply meta nfproto ipv6 meta l4proto udp counter packets 0 bytes 0 return`},
	{policy("b", state.Accelerate, state.Is(state.KeySaddr4, "192.168.1.10/32"), state.Is(state.KeyDaddr4, "203.0.113.0/24")),
		`ip saddr 192.168.1.10 ip daddr 203.0.113.0/24 counter packets 0 bytes 0 goto accelerate`},
	{policy("b", state.Accelerate, state.Is(state.KeySaddr4, "10.0.0.0/9", "192.168.1.7/32", "10.128.0.0/9", "192.168.0.0/22")),
		`ip saddr { 10.0.0.0/8, 192.168.0.0/22 } counter packets 0 bytes 0 goto accelerate`},
	{policy("c", state.Return, state.Is(state.KeySaddr6, "2001:db8::/32"), state.Is(state.KeyDaddr6, "2001:db8:1::1/128", "ff00::/8")),
		`ip6 saddr 2001:db8::/32 ip6 daddr { 2001:db8:1::1, ff00::/8 } counter packets 0 bytes 0 return`},
	{policy("c", state.Return, state.Is(state.KeyDaddr4, "0.0.0.0/0")), `meta nfproto ipv4 counter packets 0 bytes 0 return`},
	{policy("c", state.Return, state.Is(state.KeyDaddr4, "0.0.0.0/1", "255.0.0.0/8")),
		`ip daddr { 0.0.0.0/1, 255.0.0.0/8 } counter packets 0 bytes 0 return`},
	{policy("c", state.Return, state.Is(state.KeyDaddr4, "10.0.0.1/32", "10.0.0.3/32")),
		`ip daddr { 10.0.0.1, 10.0.0.3 } counter packets 0 bytes 0 return`},
	{policy("d", state.Return, state.Is(state.KeyDaddr4, "@games")), `ip daddr @games counter packets 0 bytes 0 return`},
	{policy("d", state.Return, state.Is(state.KeySaddr6, "@games6")), `ip6 saddr @games6 counter packets 0 bytes 0 return`},
	{policy("e", state.Return, state.Is(state.KeyL4Proto, "udp"), state.Is(state.KeyDport, "53")),
		`udp dport 53 counter packets 0 bytes 0 return`},
	{policy("e", state.Return, state.Is(state.KeyL4Proto, "tcp", "udp"), state.Is(state.KeySport, "1024-65535")),
		`meta l4proto { tcp, udp } th sport 1024-65535 counter packets 0 bytes 0 return`},
	{policy("e", state.Return, state.Is(state.KeyDport, "53", "27015-27030", "27031", "80")),
		`th dport { 53, 80, 27015-27031 } counter packets 0 bytes 0 return`},
	{policy("f", state.Return, state.Is(state.KeyDSCP4, "46")), `ip dscp ef counter packets 0 bytes 0 return`},
	{policy("f", state.Return, state.Is(state.KeyDSCP6, "8")), `ip6 dscp cs1 counter packets 0 bytes 0 return`},
	{policy("g", state.Return, state.Is(state.KeyMark, "0x10/0xff")), `meta mark & 0x000000ff == 0x00000010 counter packets 0 bytes 0 return`},
	{policy("g", state.Return, state.IsNot(state.KeyMark, "0x10/0xff")), `meta mark & 0x000000ff != 0x00000010 counter packets 0 bytes 0 return`},
	{policy(`q"'\`+"\n", state.Return, state.IsNot(state.KeyDport, "1-2"), state.IsNot(state.KeySaddr4, "10.0.0.0/8")),
		`th dport != { 1-2 } ip saddr != 10.0.0.0/8 counter packets 0 bytes 0 return`},
	{state.Accelerate.When(), `goto accelerate`},
	{state.Mark(testBit).When(), `ct mark set ct mark | 0x40000000 return`},
}

func policy(name string, v state.Verdict, m ...state.Match) state.Rule {
	return state.Rule{Matches: m, Verdict: v, Policy: name, Counts: true}
}

func policyTable() state.Table {
	t := state.Table{
		Zones: map[string][]string{"lan": {"br-lan"}, "wan": nil},
		Sets:  []state.Set{{Name: "games", Family: "ipv4"}, {Name: "games6", Family: "ipv6"}},
	}
	for _, r := range policyRules {
		t.Rules = append(t.Rules, r.rule)
	}
	return t
}

// TestPolicyRulesAsNftReadsThem likewise for the rules of policies.
func TestPolicyRulesAsNftReadsThem(t *testing.T) {
	testkit.Need(t, has("nft"), "needs nft")
	inNamespace(t)
	k := newKernel(t)
	want := policyTable()
	for _, step := range []state.Step{state.ReplaceTable{Table: want}, state.ReplaceTable{Table: want}, state.ReplaceRules{Table: want}} {
		apply(t, k, step)
		same(t, k, &want)
	}
	var got []string
	listing := run(t, "nft list table inet fastpath")
	for line := range strings.Lines(listing) {
		if rule, _, ok := strings.Cut(strings.TrimSpace(line), " comment "); ok {
			got = append(got, rule)
		}
	}
	for i, r := range policyRules {
		if i >= len(got) || got[i] != r.listed {
			t.Errorf("%s: nft lists\n%v\nwant\n%s", r.rule, got[min(i, len(got)):min(i+1, len(got))], r.listed)
		}
	}
	check := exec.Command("nft", "-c", "-f", "-")
	check.Stdin = strings.NewReader(listing)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("nft doesn't take what it lists: %v\n%s\n%s", err, out, listing)
	}
	load(t, "delete table inet fastpath\n"+listing)
	same(t, k, &want)
	apply(t, k, state.DeleteTable{})
	if left := run(t, "nft list ruleset"); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
}

// TestRuleStringsAsNftTakesThem: what state.Rule prints is nft's language, and
// means the same as our own encoding.
func TestRuleStringsAsNftTakesThem(t *testing.T) {
	testkit.Need(t, has("nft"), "needs nft")
	inNamespace(t)
	var b strings.Builder
	b.WriteString("table inet x {\nset zone-lan { type ifname; }\nset zone-wan { type ifname; }\n" +
		"set games { type ipv4_addr; flags interval, timeout; }\nset games6 { type ipv6_addr; flags interval, timeout; }\n" +
		"chain accelerate { }\nchain forward {\n")
	for _, r := range policyRules {
		b.WriteString(r.rule.String() + "\n")
	}
	b.WriteString("}\n}\n")
	load(t, b.String())
	var got []string
	for line := range strings.Lines(run(t, "nft list chain inet x forward")) {
		got = append(got, strings.TrimSpace(line))
	}
	got = got[2:]
	for i, r := range policyRules {
		if strings.Contains(r.listed, "{") || strings.Contains(r.rule.String(), "0.0.0.0/0") {
			continue // nft orders and joins its own sets otherwise
		}
		if got[i] != r.listed {
			t.Errorf("%s: nft reads\n%s\nwant\n%s", r.rule, got[i], r.listed)
		}
	}
}

// TestSetsSurvive: what other programs put into the sets that policies name is
// there after every step, as long as a policy names the set.
func TestSetsSurvive(t *testing.T) {
	testkit.Need(t, has("nft"), "needs nft")
	inNamespace(t)
	k := newKernel(t)
	engines, policies := engineTable(), policyTable()
	policies.Engines, policies.Generation = engines.Engines, engines.Generation
	policies.Rules = slices.Concat(policies.Rules[:len(policies.Rules)-1], engines.Rules)
	bare := state.Table{Sets: policies.Sets}
	apply(t, k, state.ReplaceTable{Table: policies})
	load(t, "add element inet fastpath games { 192.0.2.1, 198.51.100.0/24 timeout 1h }\n"+
		"add element inet fastpath games6 { 2001:db8::1 timeout 1h }")
	holds := func(when string, set, addr string, want bool) {
		t.Helper()
		if in, err := k.InSet(set, netip.MustParseAddr(addr)); err != nil || in != want {
			t.Fatalf("%s: %s in %s: %v, %v", when, addr, set, in, err)
		}
		if out, err := shell("nft get element inet fastpath " + set + " { " + addr + " }"); (err == nil) != want {
			t.Fatalf("%s: nft: %s", when, out)
		}
	}
	for i, step := range []state.Step{
		state.ReplaceRules{Table: policies}, state.ReplaceTable{Table: policies}, state.ReplaceTable{Table: bare},
		state.ReplaceTable{Table: policies}, state.ReplaceTable{Table: policies}, state.ReplaceRules{Table: policies},
	} {
		apply(t, k, step)
		for _, s := range []struct {
			set, addr string
			want      bool
		}{
			{"games", "192.0.2.1", true}, {"games", "198.51.100.77", true}, {"games", "192.0.2.2", false}, {"games", "198.51.101.0", false},
			{"games6", "2001:db8::1", true}, {"games6", "2001:db8::2", false},
		} {
			holds(step.String()+string(rune('0'+i)), s.set, s.addr, s.want)
		}
	}
	same(t, k, &policies)
}

// TestSetsGo: a set that no policy names any more goes, and of another family it
// is another one.
func TestSetsGo(t *testing.T) {
	testkit.Need(t, has("nft"), "needs nft")
	inNamespace(t)
	k := newKernel(t)
	engines, policies := engineTable(), policyTable()
	policies.Engines, policies.Generation = engines.Engines, engines.Generation
	policies.Rules = slices.Concat(policies.Rules[:len(policies.Rules)-1], engines.Rules)
	apply(t, k, state.ReplaceTable{Table: policies})
	load(t, "add element inet fastpath games { 192.0.2.1 }")
	engines.Sets = []state.Set{{Name: "games6", Family: "ipv4"}}
	apply(t, k, state.ReplaceRules{Table: engines})
	same(t, k, &engines)
	for _, set := range []string{"games6", "games"} {
		if in, err := k.InSet(set, netip.MustParseAddr("192.0.2.1")); in || err != nil {
			t.Errorf("in %s: %v, %v", set, in, err)
		}
	}
	// One that can't be taken apart is made anew.
	apply(t, k, state.ReplaceTable{Table: policies})
	load(t, "add counter inet fastpath others; add element inet fastpath games { 192.0.2.1 }")
	if got := observe(t, k).Table; len(got.Rules) != 1 {
		t.Errorf("a counter of somebody's isn't noticed: %+v", got)
	}
	apply(t, k, state.ReplaceTable{Table: policies})
	same(t, k, &policies)
}

// TestCountsGoOn: rules that are made again go on counting.
func TestCountsGoOn(t *testing.T) {
	testkit.Need(t, has("nft"), "needs nft")
	inNamespace(t)
	k := newKernel(t)
	want := policyTable()
	want.Rules = append([]state.Rule{state.Count.When()}, want.Rules...)
	apply(t, k, state.ReplaceTable{Table: want})
	listing := run(t, "nft list table inet fastpath")
	load(t, "delete table inet fastpath\n"+strings.ReplaceAll(listing, "counter packets 0 bytes 0", "counter packets 7 bytes 700"))
	for _, step := range []state.Step{state.ReplaceRules{Table: want}, state.ReplaceTable{Table: want}} {
		apply(t, k, step)
		n, err := k.Counters()
		must(t, err)
		if n.SlowPackets != 7 || n.SlowBytes != 700 || len(n.Rules) < len(policyRules)-2 {
			t.Errorf("after %s: %+v", step, n)
		}
		for id, packets := range n.Rules {
			if packets != 7 {
				t.Errorf("after %s: %s has %d", step, id, packets)
			}
		}
	}
}

// TestManyPrefixes: more than one netlink attribute holds.
func TestManyPrefixes(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	var v4, v6 []string
	for i := range 3 * elementsPerMessage {
		v4 = append(v4, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 7), byte(i << 1), 0}), 25).String())
		v6 = append(v6, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 0x01, byte(i >> 7), byte(i << 1)}), 33).String())
	}
	want := state.Table{Rules: []state.Rule{policy("a", state.Return, state.Is(state.KeySaddr4, v4...)),
		policy("a", state.Return, state.Is(state.KeyDaddr6, v6...))}}
	apply(t, k, state.ReplaceTable{Table: want})
	same(t, k, &want)
	if n := strings.Count(run(t, "nft list table inet fastpath"), "/25"); n != len(v4) {
		t.Errorf("%d of %d IPv4 prefixes", n, len(v4))
	}
}
