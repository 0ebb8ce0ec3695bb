// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"fastpath/src/state"
)

// stricter: the wanted rules send something back to the slow path that the
// installed ones may have let pass, and flows that pass already would go on for
// as long as they live. Three cases aren't so, and the others keep their flows:
// a tunnel that no flowtable carries, since it is excluded from the moment it
// exists, or has lost the route that its flows used; another number of packets to
// wait for, since those of living flows are long gone; and a device that joins or
// leaves a zone, which is no change of a rule.
func stricter(want, have []state.Rule, o state.Observed) bool {
	tunnel := uncarried(o)
	known := identities(have)
	for _, r := range want {
		if r.Verdict == state.Return && !known[r.Identity()] && !exempt(r, tunnel) {
			return true
		}
	}
	wanted := identities(want)
	for _, r := range have {
		if r.Accelerates() && !wanted[r.Identity()] {
			return true
		}
	}
	// First match wins: what they have in common must stand in the same order.
	return !slices.Equal(among(want, known), among(have, wanted))
}

func exempt(r state.Rule, tunnel map[string]bool) bool {
	if len(r.Matches) != 1 || r.Policy != "" {
		return false
	}
	m := r.Matches[0]
	return m.Key == state.KeyPackets || (m.Key == state.KeyIif || m.Key == state.KeyOif) && tunnel[m.Values[0]]
}

func identities(rules []state.Rule) map[string]bool {
	set := make(map[string]bool, len(rules))
	for _, r := range rules {
		set[r.Identity()] = true
	}
	return set
}

// among are the identities of the rules that are also in set, in order.
func among(rules []state.Rule, set map[string]bool) (list []string) {
	for _, r := range rules {
		if id := r.Identity(); set[id] {
			list = append(list, id)
		}
	}
	return list
}
