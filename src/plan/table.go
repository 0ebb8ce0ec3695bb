// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"

	"fastpath/src/state"
)

// table is what is installed at hook h. Its generation is that of fw4's rules:
// when they are loaded again, every flow has to be judged again.
func (s *survey) table(h hook) *state.Table {
	return &state.Table{
		Generation: s.o.FW4.Generation,
		Flowtable:  state.Flowtable{Number: h.number, Devices: s.devices(), Counter: s.c.Main.Counters},
		Rules:      s.rules(),
	}
}

// rules are chain forward's, in order: only established TCP and UDP, counted
// before anything else can end the rule; then what must stay on the slow path;
// the rest goes to the flowtable. Foreign marks are mwan3's and pbr's, whose
// routes a flow would not follow.
func (s *survey) rules() []state.Rule {
	rules := []state.Rule{
		{Key: state.KeyL4Proto, Not: true, Value: "{ tcp, udp }", Verdict: state.Return},
		{Key: state.KeyCtState, Not: true, Value: "established", Verdict: state.Return},
		{Key: state.KeyAny, Verdict: state.Count},
		{Key: state.KeyMark, Not: true, Value: "0", Verdict: state.Return},
		{Key: state.KeyCtMark, Value: fmt.Sprintf("0x%08x", ^s.c.Main.CTMark), Verdict: state.Return},
		{Key: state.KeyHelper, Verdict: state.Return},
	}
	if s.o.IPsec.OK {
		rules = append(rules,
			state.Rule{Key: state.KeySecpath, Verdict: state.Return},
			state.Rule{Key: state.KeyIPsec, Verdict: state.Return})
	}
	for _, device := range slices.Sorted(maps.Keys(s.excluded)) {
		rules = append(rules,
			state.Rule{Key: state.KeyIif, Value: device, Verdict: state.Return},
			state.Rule{Key: state.KeyOif, Value: device, Verdict: state.Return})
	}
	return append(rules, state.Rule{Key: state.KeyAny, Verdict: state.Add})
}
