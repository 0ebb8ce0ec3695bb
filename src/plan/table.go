// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"fastpath/src/state"
)

// table is what is installed at hook h.
func (s *survey) table(h hook) *state.Table {
	t := &state.Table{Generation: s.generation(), Rules: s.rules()}
	if len(s.engines) > 0 {
		t.Engines = s.engines
	}
	if h.hook != state.HookOff {
		t.Flowtable = state.Flowtable{Number: h.number, Devices: s.devices(), Counter: s.c.Main.Counters}
		t.Rules = append(t.Rules, state.Rule{Key: state.KeyAny, Verdict: state.Add})
	}
	return t
}

// generation changes when every flow has to be judged again: fw4's rules were
// loaded again, or a PPPoE session came up or went. Kernels that write the PPPoE
// header themselves (6.19 and later) keep the session's number in the flow and
// never look whether it is still alive. A dial that fails brings no device up, and
// disturbs nobody.
func (s *survey) generation() string {
	below := map[string]bool{} // links below a PPP device that is up and accelerated
	for _, st := range s.stacks {
		for _, e := range st.ends {
			carries := false
			for _, name := range e.path {
				below[name] = below[name] || carries
				l := s.t.byName[name]
				carries = carries || (st.slow == "" || s.engines[st.engine] != nil) && l != nil && l.Kind == "ppp" && l.Up
			}
		}
	}
	var sessions []string
	for _, session := range s.o.Sessions {
		if below[session.Device] {
			sessions = append(sessions, fmt.Sprint(session.ID, session.Peer, session.Device))
		}
	}
	if sessions == nil {
		return s.o.FW4.Generation
	}
	slices.Sort(sessions)
	return fmt.Sprintf("%s-%08x", s.o.FW4.Generation, crc32.ChecksumIEEE([]byte(strings.Join(sessions, "\n"))))
}

// rules are chain forward's, in order: only established TCP and UDP, counted
// before anything else can end the rule; then what must stay on the slow path;
// then what an engine carries, which names the devices of both ends, and may be
// more than a flowtable can; then the devices that the flowtable must not take.
// Foreign marks are mwan3's and pbr's, whose routes a flow would not follow.
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
	for _, kind := range slices.Sorted(maps.Keys(s.engines)) {
		rules = append(rules, state.Rule{Key: state.KeyEngine, Value: kind, Verdict: state.Mark(s.c.Main.CTMark)})
	}
	for _, device := range slices.Sorted(maps.Keys(s.excluded)) {
		rules = append(rules,
			state.Rule{Key: state.KeyIif, Value: device, Verdict: state.Return},
			state.Rule{Key: state.KeyOif, Value: device, Verdict: state.Return})
	}
	return rules
}
