// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"

	"fastpath/src/state"
)

// Diff is the steps from what the kernel has to what is wanted; none if they
// are the same. A crash between any two leaves a working router:
//
//	offloads that an early_ingress flowtable relies on → counting chains → table →
//	counting chains that go → all other offloads, given back or set
//
// so that no port merges packets while an early flowtable takes its lists.
func Diff(want state.State, o state.Observed) []state.Step {
	first, last := offloads(want, o)
	steps := first
	for _, device := range missing(want.Checks, o.Checks) {
		steps = append(steps, state.AddCheck{Device: device})
	}
	steps = append(steps, tableSteps(want.Table, o)...)
	for _, device := range missing(o.Checks, want.Checks) {
		steps = append(steps, state.RemoveCheck{Device: device})
	}
	return append(steps, last...)
}

// offloads are the steps for the ports' offloads: first those before the table
// is touched, last those after it. A port that doesn't exist keeps what is saved
// for it until it is back.
func offloads(want state.State, o state.Observed) (first, last []state.Step) {
	early := map[string]bool{}
	if t := want.Table; t != nil && t.Flowtable.Number != state.NumberIngress {
		for _, device := range t.Flowtable.Devices {
			early[device] = true
		}
	}
	steps := map[string]state.Step{}
	for i := range o.Links {
		l := &o.Links[i]
		set, wanted := want.Features[l.Name]
		saved, changed := o.Saved[l.Name]
		switch {
		case wanted && set != l.Feature.Offloads():
			steps[l.Name] = state.SetOffloads{Port: l.Name, Want: set}
		case !wanted && changed:
			steps[l.Name] = state.RestoreOffloads{Port: l.Name, Saved: saved}
		}
	}
	for _, port := range slices.Sorted(maps.Keys(steps)) {
		if early[port] {
			first = append(first, steps[port])
		} else {
			last = append(last, steps[port])
		}
	}
	return first, last
}

// tableSteps changes the table in place where flows can be kept.
func tableSteps(want *state.Table, o state.Observed) []state.Step {
	have := o.Table
	switch {
	case want == nil && have == nil:
		return nil
	case want == nil:
		return []state.Step{state.DeleteTable{}}
	case have == nil || anew(want, have, o.Links):
		return []state.Step{state.ReplaceTable{Table: *want}}
	}
	var steps []state.Step
	if gone := missing(have.Flowtable.Devices, want.Flowtable.Devices); len(gone) > 0 {
		steps = append(steps, state.RemoveDevices{Flowtable: have.Flowtable, Devices: gone})
	}
	if come := missing(want.Flowtable.Devices, have.Flowtable.Devices); len(come) > 0 {
		steps = append(steps, state.AddDevices{Flowtable: have.Flowtable, Devices: come})
	}
	if !slices.Equal(want.Rules, have.Rules) {
		steps = append(steps, state.ReplaceRules{Table: *want})
	}
	return steps
}

// anew: the kernel can't change these in place, or flows that were learnt must
// be judged again.
func anew(want, have *state.Table, links []state.Link) bool {
	return want.Flowtable.Number != have.Flowtable.Number ||
		want.Flowtable.Counter != have.Flowtable.Counter ||
		want.Generation != have.Generation ||
		stricter(want.Rules, have.Rules, links)
}

// stricter: the wanted rules send something back to the slow path that the
// installed ones may have let pass, and flows that pass already would go on for
// as long as they live. A tunnel is excluded from the moment it exists, so its
// coming isn't such a case, and the others keep their flows.
func stricter(want, have []state.Rule, links []state.Link) bool {
	tunnel := map[string]bool{}
	for i := range links {
		if isTunnel(&links[i]) {
			tunnel[links[i].Name] = true
		}
	}
	known := make(map[state.Rule]bool, len(have))
	for _, r := range have {
		known[r] = true
	}
	for _, r := range want {
		byDevice := r.Key == state.KeyIif || r.Key == state.KeyOif
		if r.Verdict == state.Return && !known[r] && !(byDevice && tunnel[r.Value]) {
			return true
		}
	}
	return false
}

// missing is what of a isn't in b, sorted.
func missing(a, b []string) []string {
	in := make(map[string]bool, len(b))
	for _, s := range b {
		in[s] = true
	}
	var out []string
	for _, s := range a {
		if !in[s] {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}
