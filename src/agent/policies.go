// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	"fastpath/src/config"
	"fastpath/src/state"
	"fastpath/src/status"
)

// policies are those in force, in their order, with what their rules have counted.
func (a *Agent) policies() []status.Policy {
	all := []status.Policy{}
	if a.table == nil {
		return all
	}
	for _, r := range a.table.Rules {
		if !r.Counts {
			continue
		}
		i := slices.IndexFunc(all, func(p status.Policy) bool { return p.Name == r.Policy })
		if i < 0 {
			i = len(all)
			all = append(all, status.Policy{Name: r.Policy, Action: config.Bypass})
		}
		if r.Verdict == state.Accelerate {
			all[i].Action = config.Accelerate
		}
		all[i].Packets += a.hits[r.Identity()]
	}
	return all
}
