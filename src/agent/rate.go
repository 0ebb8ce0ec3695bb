// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"time"

	"fastpath/src/plan"
	"fastpath/src/state"
)

// relearnGap is the least time between two changes of the generation. Each sends
// every flow to the slow path for a packet or two, and some come in series:
// miniupnpd adds a rule for each port forward, a line that comes back gets its
// addresses one by one. The first acts at once. Any later one waits for at most
// this long: within a second of its cause the newest state is in force, and an
// endless series costs each flow two slow packets in a gap.
const relearnGap = 750 * time.Millisecond

// rated is want with the generation that is in force, as long as a change of it
// has to wait; everything else is done at once. What replaces the table anyway
// takes the new one along.
func (a *Agent) rated(want state.State, o state.Observed) state.State {
	a.held = time.Time{}
	now, free := time.Now(), a.learnt.Add(relearnGap)
	if !relearns(want, o) || !now.Before(free) {
		return want
	}
	held := want
	table := *want.Table
	table.Generation, held.Table = o.Table.Generation, &table
	if slices.ContainsFunc(plan.Diff(held, o), replaces) {
		return want
	}
	a.held = free
	return held
}

// relearns: the wanted generation is another than that in the kernel.
func relearns(want state.State, o state.Observed) bool {
	return want.Table != nil && o.Table != nil && want.Table.Generation != o.Table.Generation
}

func replaces(s state.Step) bool {
	_, is := s.(state.ReplaceTable)
	return is
}

// relearnt notes that it was done, and says why.
func (a *Agent) relearnt(o state.Observed) {
	a.learnt = time.Now()
	why := "a route, a routing rule, an address or a PPPoE session has changed"
	switch {
	case len(o.Routing.Moved) > 0:
		why = strings.Join(o.Routing.Moved, ", ")
	case !strings.HasPrefix(o.Table.Generation, o.FW4.Generation):
		why = "the firewall's rules were loaded again"
	}
	a.Log.Info("all flows are learnt anew", "because", why)
}

// text is what steps are compared by: two tables may look alike, and be of
// different generations; and connections from a lost address may come again.
func text(steps []state.Step) string {
	var lines []string
	for _, s := range steps {
		switch s := s.(type) {
		case state.ForgetConnections:
		case state.ReplaceTable:
			lines = append(lines, s.String()+" (generation "+s.Table.Generation+")")
		default:
			lines = append(lines, s.String())
		}
	}
	return strings.Join(lines, "; ")
}
