// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"

	"fastpath/src/state"
)

// table is what is installed at hook h: when nothing is accelerated, source
// validation and the sets alone, because what other programs have put there would
// be lost with them.
func (s *survey) table(h hook) *state.Table {
	t := &state.Table{Sets: sets(s.c.Policies), Validation: s.validation()}
	if h.hook == state.HookOff && len(s.engines) == 0 {
		return t
	}
	t.Generation, t.Rules = s.generation(), s.rules()
	t.Zones = s.zonesOf(t.Rules)
	if len(s.engines) > 0 {
		t.Engines = s.engines
	}
	if h.hook != state.HookOff {
		t.Flowtable = state.Flowtable{Number: h.number, Devices: s.devices(), Counter: s.c.Main.Counters}
		t.Rules = append(t.Rules, state.Add.When())
	}
	return t
}

// rules are chain forward's, in order: only established TCP and UDP, counted
// before anything else can end the rule; then what must stay on the slow path,
// or for so many packets; then what the policies keep there;
// then what an engine carries, which names the devices of both ends, and may be
// more than a flowtable can; then the devices that the flowtable must not take,
// and what it would lead astray.
func (s *survey) rules() []state.Rule {
	rules := []state.Rule{
		state.Return.When(state.IsNot(state.KeyL4Proto, "tcp", "udp")),
		state.Return.When(state.IsNot(state.KeyCtState, "established")),
		state.Count.When(),
	}
	rules = append(rules, s.foreignMarks()...)
	rules = append(rules, state.Return.When(state.Is(state.KeyHelper)))
	if s.o.IPsec.OK {
		rules = append(rules,
			state.Return.When(state.Is(state.KeySecpath)),
			state.Return.When(state.Is(state.KeyIPsec)))
	}
	if n := s.c.Main.DeferPackets; n > 0 {
		rules = append(rules, state.Return.When(state.Is(state.KeyPackets, fmt.Sprint(n))))
	}
	rules = append(rules, s.policies()...)
	for _, kind := range slices.Sorted(maps.Keys(s.engines)) {
		between := []state.Match{state.Is(state.KeyIif, "@"+kind), state.Is(state.KeyOif, "@"+kind)}
		rules = append(rules, state.Mark(s.c.Main.CTMark).When(append(between, s.unmarked()...)...))
	}
	for _, device := range slices.Sorted(maps.Keys(s.excluded)) {
		rules = append(rules,
			state.Return.When(state.Is(state.KeyIif, device)),
			state.Return.When(state.Is(state.KeyOif, device)))
	}
	return append(rules, s.wayBack()...)
}
