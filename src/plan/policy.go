// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"fastpath/src/config"
	"fastpath/src/state"
)

// policies are the rules of the policies, those that fw4's rules amount to
// first. The first that matches decides. A policy is about a connection's
// originator, and the first established packet may be the reply: so each is a
// rule for either direction. Chain forward sees addresses as they are after
// DNAT and before SNAT.
func (s *survey) policies() []state.Rule {
	var rules []state.Rule
	for _, p := range slices.Concat(s.c.QoSRules, s.c.Policies) {
		rules = append(rules, compile(p)...)
		if foreign := p.Mark.Value &^ s.marks(); foreign != 0 && p.Action == config.Accelerate {
			s.notice("policy ", p.Name, " accelerates nothing: packets with the bits ", fmt.Sprintf("0x%x", foreign),
				" in their mark stay on the slow path, as no routing rule tells what these are for")
		}
	}
	if slices.ContainsFunc(rules, state.Rule.Accelerates) {
		rules = append(rules, state.Accelerate.When())
	}
	return rules
}

// compile makes a policy's rules: a pair for each combination of what one rule
// can't hold together, as two families or two zones.
func compile(p config.Policy) (rules []state.Rule) {
	for _, family := range families(p) {
		src, dest := prefixes(p.SrcIP, family), prefixes(p.DestIP, family)
		if len(p.SrcIP) > 0 && src == nil || len(p.DestIP) > 0 && dest == nil {
			continue
		}
		for _, from := range orAny(p.Src) {
			for _, to := range orAny(p.Dest) {
				c := conditions{p, family, from, to, src, dest}
				rules = append(rules, c.rules()...)
			}
		}
	}
	return rules
}

// families are those that a policy's rules must tell apart; "": it needs not.
func families(p config.Policy) []string {
	switch {
	case p.Family != "":
		return []string{p.Family}
	case len(p.SrcIP)+len(p.DestIP)+len(p.DSCP) > 0 || p.Set != "":
		return []string{"ipv4", "ipv6"}
	}
	return []string{""}
}

func prefixes[P interface{ String() string }](all []P, family string) (some []string) {
	for _, p := range all {
		if text := p.String(); strings.Contains(text, ":") == (family == "ipv6") {
			some = append(some, text)
		}
	}
	return some
}

func orAny[T any](all []T) []T {
	if len(all) == 0 {
		return make([]T, 1)
	}
	return all
}

// conditions are a policy's, of one family and one pair of zones.
type conditions struct {
	config.Policy
	family, from, to string
	src, dest        []string
}

// rules are those for the packets of the originator, one for each code point,
// and one for those that come back. What dscp and mark ask of a packet, answers
// don't bear: so where these decide, only the originator's packets do, and
// answers stay on the slow path until one has come.
func (c conditions) rules() (rules []state.Rule) {
	verdict := state.Return
	if c.Action == config.Accelerate {
		verdict = state.Accelerate
	}
	there := c.matches("original")
	for _, dscp := range orAny(c.DSCP) {
		m := slices.Clone(there)
		if len(c.DSCP) > 0 {
			m = append(m, state.Is(c.key(state.KeyDSCP4, state.KeyDSCP6), fmt.Sprint(dscp)))
		}
		if c.Mark.Set {
			m = append(m, state.Is(state.KeyMark, fmt.Sprintf("0x%x/0x%x", c.Mark.Value, c.Mark.Mask)))
		}
		rules = append(rules, state.Rule{Matches: m, Verdict: verdict, Policy: c.Name, Counts: true})
	}
	back := state.Rule{Matches: c.matches("reply"), Verdict: verdict, Policy: c.Name, Counts: true}
	if len(c.DSCP) > 0 || c.Mark.Set {
		back.Verdict, back.Counts = state.Return, false
	}
	return append(rules, back)
}

func (c conditions) key(v4, v6 state.Key) state.Key {
	if c.family == "ipv6" {
		return v6
	}
	return v4
}

// matches are the conditions on a packet of one direction: in replies, what is
// the originator's is at the other end.
func (c conditions) matches(direction string) []state.Match {
	iif, oif := state.KeyIif, state.KeyOif
	saddr, daddr := c.key(state.KeySaddr4, state.KeySaddr6), c.key(state.KeyDaddr4, state.KeyDaddr6)
	sport, dport := state.KeySport, state.KeyDport
	if direction == "reply" {
		iif, oif, saddr, daddr, sport, dport = oif, iif, daddr, saddr, dport, sport
	}
	m := []state.Match{state.Is(state.KeyDirection, direction)}
	add := func(k state.Key, values ...string) {
		if len(values) > 0 {
			m = append(m, state.Is(k, values...))
		}
	}
	if c.from != "" {
		add(iif, "@"+state.ZonePrefix+c.from)
	}
	if c.to != "" {
		add(oif, "@"+state.ZonePrefix+c.to)
	}
	if c.family != "" && c.src == nil && c.dest == nil && c.Set == "" {
		add(state.KeyFamily, c.family)
	}
	add(saddr, c.src...)
	add(daddr, c.dest...)
	if c.Set != "" {
		add(daddr, "@"+c.SetName(c.family))
	}
	add(state.KeyL4Proto, c.Proto...)
	add(sport, ports(c.SrcPort)...)
	add(dport, ports(c.DestPort)...)
	return m
}

func ports(ranges []config.PortRange) (texts []string) {
	for _, r := range ranges {
		text := fmt.Sprint(r.First)
		if r.Last > r.First {
			text += fmt.Sprintf("-%d", r.Last)
		}
		texts = append(texts, text)
	}
	return texts
}

// sets are those that policies name.
func sets(policies []config.Policy) (all []state.Set) {
	for _, p := range policies {
		for _, family := range p.SetFamilies() {
			if set := (state.Set{Name: p.SetName(family), Family: family}); !slices.Contains(all, set) {
				all = append(all, set)
			}
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// zonesOf are the devices of the zones that rules look into.
func (s *survey) zonesOf(rules []state.Rule) map[string][]string {
	zones := map[string][]string{}
	for _, r := range rules {
		for _, m := range r.Matches {
			if name, ok := strings.CutPrefix(m.Set(), state.ZonePrefix); ok {
				zones[name] = []string{}
			}
		}
	}
	for _, z := range s.c.Zones {
		if devices, used := zones[z.Name]; used {
			s.zone(z, func(device, _ string) {
				if len(device) <= 15 { // no device can have a longer name
					devices = append(devices, device)
				}
			})
			slices.Sort(devices)
			zones[z.Name] = slices.Compact(devices)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		if len(zones[name]) == 0 {
			s.notice("zone ", name, " has no device (yet): policies for it match nothing")
		}
	}
	return zones
}
