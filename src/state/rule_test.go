// SPDX-License-Identifier: Apache-2.0

package state

import "testing"

// TestRuleString: a rule reads as nft takes it, and only two verdicts hand flows on.
func TestRuleString(t *testing.T) {
	for _, c := range []struct {
		rule  Rule
		text  string
		hands bool
	}{
		{Rule{KeyL4Proto, true, "{ tcp, udp }", Return}, "meta l4proto != { tcp, udp } return", false},
		{Rule{KeyAny, false, "", Count}, "counter", false},
		{Rule{KeyCtMark, false, "0xbfffffff", Return}, "ct mark and 0xbfffffff != 0 return", false},
		{Rule{KeyHelper, false, "", Return}, "ct helper exists return", false},
		{Rule{KeyIif, false, `a "b`, Return}, `iifname "a \"b" return`, false},
		{Rule{KeyEngine, false, EngineXDP, Mark(1 << 30)}, "iifname @xdp oifname @xdp ct mark set ct mark or 0x40000000 return", true},
		{Rule{KeyEngine, false, EngineAFXDP, Mark(1)}, "iifname @afxdp oifname @afxdp ct mark set ct mark or 0x00000001 return", true},
		{Rule{KeyAny, false, "", Add}, "flow add @ft", true},
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
