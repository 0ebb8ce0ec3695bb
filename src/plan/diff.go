// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"sort"

	"fastpath/src/state"
)

// Diff is the steps from what the kernel has to what is wanted; none if they
// are the same. A crash between any two leaves a working router:
//
//	offloads that an early_ingress flowtable or an engine relies on → engines
//	that are new or change → sysctls → counting chains → what is dropped by
//	source → table → connections of lost addresses → counting chains that go →
//	engines that go → all other sysctls and offloads, given back or set
//
// so that no port merges packets while an early flowtable takes its lists, no
// frame loses its tag before an engine sees it, and no rule hands connections
// to an engine that isn't there (yet, or any more).
func Diff(want state.State, o state.Observed) []state.Step {
	first, last := offloads(want, o)
	start, stop := engines(want, o)
	set, restore := sysctls(want, o)
	steps := slices.Concat(first, start, set)
	for _, device := range missing(want.Checks, o.Checks) {
		steps = append(steps, state.AddCheck{Device: device})
	}
	if want.Drop != nil && !o.Drop.Is(want.Drop) {
		steps = append(steps, state.SetDrop{Drop: *want.Drop})
	}
	steps = append(steps, tableSteps(want.Table, o)...)
	if len(o.Routing.Lost) > 0 && want.Table != nil {
		steps = append(steps, state.ForgetConnections{Addresses: o.Routing.Lost})
	}
	if want.Drop == nil && !o.Drop.Is(nil) {
		steps = append(steps, state.RemoveDrop{})
	}
	for _, device := range missing(o.Checks, want.Checks) {
		steps = append(steps, state.RemoveCheck{Device: device})
	}
	return slices.Concat(steps, stop, restore, last)
}

// engines are the steps for the ports' engines: those that come or change
// before the table, those that go after it.
func engines(want state.State, o state.Observed) (start, stop []state.Step) {
	for _, port := range slices.Sorted(maps.Keys(o.Engines)) {
		switch e, wanted := want.Engines[port]; {
		case !wanted:
			stop = append(stop, state.StopEngine{Port: port})
		case e != o.Engines[port]:
			start = append(start, state.StopEngine{Port: port})
		}
	}
	for _, port := range slices.Sorted(maps.Keys(want.Engines)) {
		if e := want.Engines[port]; e != o.Engines[port] {
			start = append(start, state.StartEngine{Port: port, Want: e})
		}
	}
	return start, stop
}

// offloads are the steps for the ports' offloads: what must be off is switched
// off first, what may be on is switched on last, because an early flowtable or an
// engine that goes is there until then. A port that doesn't exist keeps what is
// saved for it until it is back.
func offloads(want state.State, o state.Observed) (first, last []state.Step) {
	relied := relied(want)
	links := slices.Clone(o.Links)
	sort.Slice(links, func(i, j int) bool { return links[i].Name < links[j].Name })
	for _, l := range links {
		now := l.Feature.Offloads()
		set, wanted := want.Features[l.Name]
		saved, changed := o.Saved[l.Name]
		var step state.Step = state.SetOffloads{Port: l.Name, Want: set}
		if !wanted {
			set, step = saved, state.RestoreOffloads{Port: l.Name, Saved: saved}
		}
		soon := both(now, set)
		switch {
		case wanted && set == now || !wanted && !changed:
		case relied[l.Name] && soon == set:
			first = append(first, step)
		case relied[l.Name] && soon != now:
			first = append(first, state.SetOffloads{Port: l.Name, Want: soon})
			last = append(last, step)
		default:
			last = append(last, step)
		}
	}
	return first, last
}

// both is what is on in a and in b.
func both(a, b state.Offloads) state.Offloads {
	return state.Offloads{GRO: a.GRO && b.GRO, GROList: a.GROList && b.GROList, GROHW: a.GROHW && b.GROHW,
		LRO: a.LRO && b.LRO, RxVLAN: a.RxVLAN && b.RxVLAN}
}

// relied are the ports whose offloads an early flowtable or an engine relies on.
func relied(want state.State) map[string]bool {
	ports := map[string]bool{}
	if t := want.Table; t != nil && t.Flowtable.Number != state.NumberIngress {
		for _, device := range t.Flowtable.Devices {
			ports[device] = true
		}
	}
	for port := range want.Engines {
		ports[port] = true
	}
	return ports
}

// tableSteps changes the table in place where flows can be kept.
func tableSteps(want *state.Table, o state.Observed) []state.Step {
	have := o.Table
	switch {
	case want == nil && have == nil:
		return nil
	case want == nil:
		return []state.Step{state.DeleteTable{}}
	case have == nil || anew(want, have, o):
		return []state.Step{state.ReplaceTable{Table: *want}}
	}
	var steps []state.Step
	if gone := missing(have.Flowtable.Devices, want.Flowtable.Devices); len(gone) > 0 {
		steps = append(steps, state.RemoveDevices{Flowtable: have.Flowtable, Devices: gone})
	}
	if come := missing(want.Flowtable.Devices, have.Flowtable.Devices); len(come) > 0 {
		steps = append(steps, state.AddDevices{Flowtable: have.Flowtable, Devices: come})
	}
	if !state.SameRules(want.Rules, have.Rules) || !slices.Equal(want.Sets, have.Sets) || !want.Validation.Same(have.Validation) ||
		!maps.EqualFunc(want.Zones, have.Zones, slices.Equal) {
		steps = append(steps, state.ReplaceRules{Table: *want})
	}
	return steps
}

// anew: the kernel can't change these in place, or flows that were learnt must
// be judged again: those in the flowtable that an engine takes now, too.
func anew(want, have *state.Table, o state.Observed) bool {
	return (len(want.Flowtable.Devices) > 0) != (len(have.Flowtable.Devices) > 0) ||
		want.Flowtable.Number != have.Flowtable.Number ||
		want.Flowtable.Counter != have.Flowtable.Counter ||
		want.Generation != have.Generation ||
		!maps.EqualFunc(want.Engines, have.Engines, slices.Equal) ||
		stricter(want.Rules, have.Rules, o)
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
