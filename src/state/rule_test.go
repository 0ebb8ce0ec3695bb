// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"testing"
)

// TestRuleString: a rule reads as nft takes it, and only two verdicts hand flows on.
func TestRuleString(t *testing.T) {
	for _, c := range []struct {
		rule  Rule
		text  string
		hands bool
	}{
		{Return.When(IsNot(KeyL4Proto, "tcp", "udp")), "meta l4proto != { tcp, udp } return", false},
		{Count.When(), "counter", false},
		{Return.When(IsNot(KeyCtMark, "0/0xbfffffff")), "ct mark and 0xbfffffff != 0 return", false},
		{Return.When(Is(KeyHelper)), "ct helper exists return", false},
		{Return.When(Is(KeyIif, `a "b`)), `iifname "a \"b" return`, false},
		{Mark(1<<30).When(Is(KeyIif, "@xdp"), Is(KeyOif, "@xdp")), "iifname @xdp oifname @xdp ct mark set ct mark or 0x40000000 return", true},
		{Mark(1).When(Is(KeyIif, "@afxdp"), Is(KeyOif, "@afxdp")), "iifname @afxdp oifname @afxdp ct mark set ct mark or 0x00000001 return", true},
		{Add.When(), "flow add @ft", true},
	} {
		if got := c.rule.String(); got != c.text || c.rule.Verdict.Hands() != c.hands {
			t.Errorf("%q, hands on: %v; want %q, %v", got, c.rule.Verdict.Hands(), c.text, c.hands)
		}
	}
}

func TestStepString(t *testing.T) {
	for _, c := range []struct {
		step Step
		text string
	}{
		{StartEngine{"eth0", Engine{Kind: EngineAFXDP, ZeroCopy: true, Force: true}}, "start engine afxdp (zero copy) (forced) on eth0"},
		{StartEngine{"eth0", Engine{Kind: EngineXDP, Generic: true}}, "start engine xdp (generic mode) on eth0"},
		{ReplaceTable{Table{Engines: map[string][]string{EngineXDP: {"a", "b"}, EngineAFXDP: {"c", "d"}}, Rules: make([]Rule, 3)}},
			"install table inet fastpath: no flowtable, engine afxdp between c, d, engine xdp between a, b, 3 rules"},
		{SetOffloads{"eth0", Offloads{GRO: true, RxVLAN: true}},
			"set eth0: rx-gro on, rx-gro-list off, rx-gro-hw off, rx-lro off, rx-vlan-hw-parse on"},
	} {
		if got := c.step.String(); got != c.text {
			t.Errorf("%q, want %q", got, c.text)
		}
	}
}

// TestMerges: tags are nothing that joins packets.
func TestMerges(t *testing.T) {
	for o, want := range map[Offloads]bool{
		{}: false, {RxVLAN: true}: false, {GRO: true}: true, {GROList: true}: true, {GROHW: true}: true, {LRO: true, RxVLAN: true}: true,
	} {
		if o.Merges() != want {
			t.Errorf("%v merges: %v", o, !want)
		}
	}
}

func TestMatchString(t *testing.T) {
	for _, c := range []struct {
		match Match
		text  string
		set   string
	}{
		{Is(KeyL4Proto, "udp"), "meta l4proto udp", ""},
		{Is(KeyMark, "0x10"), "meta mark 0x10", ""},
		{Is(KeyMark, "0x10/0xff"), "meta mark and 0xff == 0x10", ""},
		{IsNot(KeyCtMark, "0/0xff"), "ct mark and 0xff != 0", ""},
		{Is(KeyPackets, "9"), "ct packets < 9", ""},
		{Is(KeyIif, "@zone-lan"), "iifname @zone-lan", "zone-lan"},
		{IsNot(KeyDaddr4, "10.0.0.0/8", "192.0.2.1/32"), "ip daddr != { 10.0.0.0/8, 192.0.2.1/32 }", ""},
		{Is(KeyDaddr6, "@games6"), "ip6 daddr @games6", "games6"},
		{Is(KeyDport, "53", "80-90"), "th dport { 53, 80-90 }", ""},
		{Is(KeyHelper), "ct helper exists", ""},
	} {
		if got := c.match.String(); got != c.text || c.match.Set() != c.set {
			t.Errorf("%q, set %q; want %q, %q", got, c.match.Set(), c.text, c.set)
		}
	}
}

// TestIdentity: a rule is known by its identity, however long it is and
// whatever its policy is called.
func TestIdentity(t *testing.T) {
	bypass := Rule{Matches: []Match{Is(KeyDport, "53")}, Verdict: Return, Policy: "games", Counts: true}
	other, accelerate, silent, renamed, odd := bypass, bypass, bypass, bypass, bypass
	other.Matches = []Match{Is(KeyDport, "54")}
	accelerate.Verdict, silent.Counts, renamed.Policy = Accelerate, false, "Games"
	odd.Policy = strings.Repeat("\"'\x00\né\\", 50)
	rules := []Rule{bypass, other, accelerate, silent, renamed, odd, Return.When(Is(KeyDport, "53")), Accelerate.When(),
		Mark(1<<31).When(Is(KeyIif, "@afxdp"), Is(KeyOif, "@afxdp"), Is(KeyMark, "0/0x00003f00"))}
	seen := map[string]bool{}
	for _, r := range rules {
		id := r.Identity()
		// A comment of the kernel has 127 bytes: "fastpath: " and " (generation …)" are in it, too.
		if seen[id] || len(id) > 77 || strings.ContainsAny(id, "\"\n\x00") {
			t.Errorf("identity %q", id)
		}
		seen[id] = true
		back := Rule{Read: id}
		if back.Identity() != id || back.String() != id || !SameRules([]Rule{back}, []Rule{r}) || back.All() {
			t.Errorf("read back: %q, want %q", back.Identity(), id)
		}
		if want := r.Policy != "" && r.Verdict == Accelerate; r.Accelerates() != want || back.Accelerates() != want {
			t.Errorf("%q accelerates: %v, read back %v", id, r.Accelerates(), back.Accelerates())
		}
	}
	if got := bypass.Identity(); !strings.HasPrefix(got, "bypass by policy 'games', ") {
		t.Errorf("identity %q", got)
	}
	if SameRules(rules[:2], rules[:1]) || SameRules(rules[:1], rules[1:2]) {
		t.Error("other rules are the same")
	}
}
