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
	"fmt"
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
	want := state.State{Features: s.receive(h.hook), Engines: s.wantedEngines()}
	if h.hook != state.HookOff || len(want.Engines) > 0 {
		want.Table = s.table(h)
	}
	if h.hook == state.HookEarly && !o.Hooks.Confirmed {
		want.Checks = slices.Clone(want.Table.Flowtable.Devices)
	}
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
	case len(o.Accelerators) > 0:
		return fmt.Sprintf("another accelerator is loaded (%s): fastpath stays out", list(o.Accelerators))
	case o.FW4.Hardware || c.Firewall.FlowOffloadingHW:
		return "hardware offload is on (firewall option flow_offloading_hw '1'): fastpath stays out"
	}
	return ""
}

// hold is the reason to accelerate nothing; what the user wrote about the
// receive modes of ports still holds.
func hold(c config.Config, o state.Observed) string {
	if c.Firewall.Present && !o.FW4.Present {
		return "firewall stopped or not started yet: no acceleration until it is back"
	}
	reason, _ := c.Withhold()
	return reason
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
	}
	return ""
}

// fw4Offload: the kernel shows fw4's flowtable, or UCI asks fw4 for one.
func fw4Offload(c config.Config, o state.Observed) bool {
	return o.FW4.Offload || c.Firewall.FlowOffloading
}
