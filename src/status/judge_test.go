// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"fastpath/src/state"
)

// byPolicies is a connection to a port that DNAT moved, and a router whose
// rules are those of policies.
func byPolicies(rules ...state.Rule) Case {
	c := explained()
	n := c.Connection
	n.Family, n.Proto, n.Counted = "ipv4", "udp", true
	n.Orig = state.Tuple{Src: "192.168.1.10", Dst: "192.0.2.1", SrcPort: 5000, DstPort: 8080, Packets: 4}
	n.Reply = state.Tuple{Src: "10.0.0.9", Dst: "203.0.113.1", SrcPort: 80, DstPort: 6000, Packets: 3}
	c.Table.Zones = map[string][]string{"lan": {"br-lan"}, "wan": {"pppoe-wan"}}
	c.Table.Rules = append(rules, state.Accelerate.When(), state.Return.When(state.Is(state.KeyIif, "tun0")), state.Add.When())
	c.InSet = func(set string, a netip.Addr) (bool, error) {
		if set == "broken" {
			return false, errors.New("no such set")
		}
		return set == "games" && a.String() == "10.0.0.9", nil
	}
	return c
}

func bypass(m ...state.Match) state.Rule {
	return state.Rule{Matches: m, Verdict: state.Return, Policy: "games", Counts: true}
}

// One match each, for a packet of the originator and then for a reply.
var matchCases = []struct {
	match state.Match
	there answer
	back  answer
}{
	{state.Is(state.KeyDirection, "original"), yes, no},
	{state.Is(state.KeyL4Proto, "tcp", "udp"), yes, yes},
	{state.IsNot(state.KeyL4Proto, "tcp"), yes, yes},
	{state.Is(state.KeyFamily, "ipv6"), no, no},
	{state.Is(state.KeyIif, "@zone-lan"), yes, no},
	{state.Is(state.KeyOif, "@zone-lan"), no, yes},
	{state.Is(state.KeyIif, "@zone-dmz"), unknown, unknown},
	{state.Is(state.KeyOif, "pppoe-wan"), yes, no},
	{state.Is(state.KeySaddr4, "192.168.1.0/24"), yes, no},
	{state.Is(state.KeyDaddr4, "192.0.2.1/32"), no, no}, // before DNAT
	{state.Is(state.KeyDaddr4, "198.51.100.0/24", "10.0.0.0/8"), yes, no},
	{state.IsNot(state.KeyDaddr4, "10.0.0.0/8"), no, yes},
	{state.Is(state.KeySaddr4, "10.0.0.0/8"), no, yes},
	{state.Is(state.KeyDaddr4, "203.0.113.1/32"), no, no}, // after SNAT
	{state.Is(state.KeyDaddr4, "nonsense"), unknown, unknown},
	{state.Is(state.KeySaddr6, "::/0"), no, no},
	{state.Is(state.KeyDaddr4, "@games"), yes, no},
	{state.Is(state.KeySaddr4, "@games"), no, yes},
	{state.Is(state.KeyDaddr4, "@broken"), unknown, unknown},
	{state.Is(state.KeySport, "5000"), yes, no},
	{state.Is(state.KeyDport, "8080"), no, no},
	{state.Is(state.KeyDport, "1-79", "80-90"), yes, no},
	{state.Is(state.KeyDport, "5000"), no, yes},
	{state.Is(state.KeyDport, "x"), unknown, unknown},
	{state.Is(state.KeyDSCP4, "46"), unknown, unknown},
	{state.Is(state.KeyDSCP6, "46"), no, no},
	{state.Is(state.KeyMark, "0x10/0xff"), unknown, unknown},
	{state.IsNot(state.KeyMark, "0"), unknown, unknown},
	{state.Is(state.KeyCtMark, "0/0xff"), yes, yes},
	{state.Is(state.KeyCtMark, "1"), no, no},
	{state.Is(state.KeyPackets, "8"), no, no}, // its next packet is the eighth
	{state.Is(state.KeyPackets, "9"), yes, yes},
	{state.Is("of tomorrow", "1"), unknown, unknown},
}

func TestMatches(t *testing.T) {
	for _, m := range matchCases {
		c := byPolicies()
		r := bypass(m.match)
		views := c.views()
		if there, back := views[0].matches(c.Table, &r), views[1].matches(c.Table, &r); there != m.there || back != m.back {
			t.Errorf("%s: %d there and %d back, want %d and %d", m.match, there, back, m.there, m.back)
		}
	}
}

func TestExplainPolicies(t *testing.T) {
	lan, all := state.Is(state.KeyIif, "@zone-lan"), state.Is(state.KeyL4Proto, "udp")
	accelerate := bypass(lan)
	accelerate.Verdict = state.Accelerate
	waits := state.Return.When(state.Is(state.KeyPackets, "20"))
	for _, tt := range []struct {
		what       string
		rules      []state.Rule
		status     uint32
		path, rule string
		text       string
	}{
		{"a bypass", []state.Rule{bypass(all)}, 0, PathSlow, "meta l4proto udp counter return", `policy "games" keeps it there`},
		{"the first that matches", []state.Rule{accelerate, bypass(lan)}, 0, PathSlow, "flow add @ft", "next packet"},
		{"not the second", []state.Rule{bypass(all), accelerate}, 0, PathSlow, "meta l4proto udp counter return", "keeps it"},
		{"one match doesn't fit", []state.Rule{bypass(lan, state.Is(state.KeyDport, "81"), state.Is(state.KeyDSCP4, "46"))}, 0, PathSlow, "flow add @ft", "next packet; if it stays"},
		{"nobody can tell", []state.Rule{bypass(state.Is(state.KeyDSCP4, "46"))}, 0, PathSlow, "flow add @ft", "can't be told from conntrack: ip dscp 46 counter return"},
		{"the reply alone hands it on", []state.Rule{bypass(state.Is(state.KeyDirection, "original"))}, 0, PathSlow, "flow add @ft", "next packet"},
		{"it waits", []state.Rule{waits}, 0, PathSlow, "ct packets < 20 return", "defer_packets 20: it has had 7 packets so far"},
		{"accelerated by a policy", []state.Rule{accelerate, bypass(lan)}, state.StatusOffload, "flowtable", "iifname @zone-lan counter goto accelerate", `; policy "games" lets it pass (rule: iifname`},
		{"accelerated by none", []state.Rule{bypass(state.Is(state.KeyDport, "1"))}, state.StatusOffload, "flowtable", "flow add @ft", "By the flowtable"},
		{"it has changed", []state.Rule{bypass(all)}, state.StatusOffload, "flowtable", "", `by now policy "games" keeps it there, but not when it was judged`},
		{"a rule of which only the identity is known", []state.Rule{{Read: "bypass by policy 'x', 1"}}, 0, PathSlow, "flow add @ft", "conntrack: bypass by policy 'x', 1"},
	} {
		c := byPolicies(tt.rules...)
		c.Connection.Status |= tt.status
		got := c.Explain()
		if got.Path != tt.path || got.Rule != tt.rule || !strings.Contains(got.Text, tt.text) {
			t.Errorf("%s: %+v\nwant path %q, rule %q, text with %q", tt.what, got, tt.path, tt.rule, tt.text)
		}
	}
	c := byPolicies(waits)
	c.Connection.Counted = false
	if got := c.Explain(); !strings.Contains(got.Text, "conntrack doesn't count its packets") {
		t.Errorf("not counted: %+v", got)
	}
}
