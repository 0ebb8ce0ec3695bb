// SPDX-License-Identifier: Apache-2.0

// Package plan decides. Desired says what a router should have, from its
// configuration and one look at its kernel, and why; Diff says which steps lead
// there. Both are pure functions, so everything they decide can be written down
// in a golden file (testdata).
//
// The way of a decision: survey (which l3 devices, what is below each, which
// stay on the slow path) → engines (for each port) → hook (one for the router) →
// receive (for each port) → table (flowtable and rules).
package plan

import (
	"slices"

	"fastpath/src/config"
	"fastpath/src/state"
)

// Desired is what the kernel should have of ours, and the reasons. It refers to
// nothing but its arguments and never fails: what can't be had is left out and
// said in the Report.
func Desired(c config.Config, o state.Observed) (state.State, state.Report) {
	r := state.Report{Enabled: c.Main.Enabled, Hook: state.HookOff}
	if reason := standAside(c, o); reason != "" {
		r.HookReason = reason
		return state.State{}, r
	}
	s := newSurvey(c, o)
	h := s.chooseHook()
	want := state.State{Features: s.receive(h.hook), Engines: s.wantedEngines(), Sysctls: wantedSysctls(c)}
	if t := s.table(h); len(t.Rules)+len(t.Sets)+len(t.Validation.Input) > 0 {
		want.Table = t
	}
	if h.hook == state.HookEarly && !o.Hooks.Confirmed {
		want.Checks = slices.Clone(want.Table.Flowtable.Devices)
	}
	want.Drop = s.drop(h)
	r.Hook, r.HookReason = h.hook, h.reason
	r.Ports = s.report(h)
	r.Notices = s.allNotices()
	return want, r
}

// standAside is the reason to leave the router wholly alone, if there is one.
func standAside(c config.Config, o state.Observed) string {
	switch {
	case !c.Main.Enabled:
		return "not enabled (option enabled '0')"
	case o.Passive != "":
		return o.Passive
	case loadedOthers(o) != "":
		return "another accelerator is loaded, fastpath stays out: " + loadedOthers(o)
	case hardware(c, o) != "":
		return "hardware offload is on, fastpath stays out: " + hardware(c, o)
	}
	return ""
}

// hold is the reason to accelerate nothing; what the user wrote about the
// receive modes of ports still holds.
func hold(c config.Config, o state.Observed) string {
	if c.Firewall.Present && !o.FW4.Present {
		return "firewall stopped or not started yet: no acceleration until it is back"
	}
	return holdDefer(c, o)
}

// holdFlowtable is the reason to install no flowtable.
func holdFlowtable(c config.Config, o state.Observed) string {
	switch {
	case c.Main.Hook == config.HookOff:
		return "option hook 'off'"
	case hold(c, o) != "":
		return hold(c, o)
	case fw4Offload(c, o):
		return "fw4's own flow_offloading is on"
	case unverifiable(o) != "":
		return unverifiable(o)
	}
	return ""
}

// fw4Offload: the kernel shows fw4's flowtable, or UCI asks fw4 for one.
func fw4Offload(c config.Config, o state.Observed) bool {
	return o.FW4.Offload || c.Firewall.FlowOffloading
}
