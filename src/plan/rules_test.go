// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fastpath/src/state"
)

// readBack are rules as the kernel tells them: by identity.
func readBack(rules []state.Rule) []state.Rule {
	var back []state.Rule
	for _, r := range rules {
		back = append(back, state.Rule{Read: r.Identity()})
	}
	return back
}

func adds(rules []state.Rule) bool {
	return slices.ContainsFunc(rules, func(r state.Rule) bool { return r.Identity() == state.Add.When().Identity() })
}

// replaceRules keeps what is in sets that stay.
func (r *router) replaceRules(t state.Table) error {
	have := r.o.Table
	if have == nil || have.Generation != t.Generation || !maps.EqualFunc(have.Engines, t.Engines, slices.Equal) {
		return fmt.Errorf("the installed table isn't the one that the rules are for")
	}
	have.Rules, have.Zones, have.Sets = readBack(t.Rules), maps.Clone(t.Zones), slices.Clone(t.Sets)
	r.validate(t.Validation)
	return r.rulesFit(t)
}

// rulesFit: rules refer to what is in the table, nothing hands connections to
// an engine that doesn't run, and what an engine takes never reaches the flowtable.
func (r *router) rulesFit(t state.Table) error {
	used := map[string]bool{}
	for i, rule := range t.Rules {
		for _, m := range rule.Matches {
			if set := m.Set(); set != "" {
				used[set] = true
			}
		}
		if !rule.Verdict.Hands() || rule.Verdict == state.Add {
			continue
		}
		kind := rule.Matches[0].Set()
		if len(t.Engines[kind]) < 2 {
			return fmt.Errorf("senseless: set %s of %v", kind, t.Engines)
		}
		if !r.runs(kind) {
			return fmt.Errorf("no engine %s runs, but rules hand connections to it", kind)
		}
		if adds(t.Rules[:i]) {
			return fmt.Errorf("flows are added before rule %s", rule)
		}
	}
	if adds(t.Rules) != (len(t.Flowtable.Devices) > 0) {
		return fmt.Errorf("ENOENT: flows are added: %v, devices %v", adds(t.Rules), t.Flowtable.Devices)
	}
	if t.Rules == nil {
		return nil // the sets wait for better times
	}
	return setsFit(t, used)
}

// setsFit: the table's sets are those that its rules use.
func setsFit(t state.Table, used map[string]bool) error {
	made := map[string]bool{}
	for kind := range t.Engines {
		made[kind] = true
	}
	for zone := range t.Zones {
		made[state.ZonePrefix+zone] = true
	}
	for _, s := range t.Sets {
		made[s.Name] = true
	}
	if !maps.Equal(used, made) {
		return fmt.Errorf("the rules use the sets %v, but there are %v", used, made)
	}
	if !slices.IsSortedFunc(t.Sets, func(a, b state.Set) int { return strings.Compare(a.Name, b.Name) }) {
		return fmt.Errorf("sets aren't sorted: %v", t.Sets)
	}
	return nil
}
