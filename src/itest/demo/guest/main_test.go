// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"fastpath/src/itest/demo"
)

// Each scenario that the host may ask for is one that the guest can show, and no other.
func TestScenarios(t *testing.T) {
	for _, s := range demo.Scenarios {
		if scenarios[s.Name] == nil {
			t.Errorf("nobody shows %s", s.Name)
		}
	}
	if len(scenarios) != len(demo.Scenarios) {
		t.Errorf("%d scenarios are shown, %d have a name", len(scenarios), len(demo.Scenarios))
	}
}

// The verdict is what the checks say, and without any there is none.
func TestPageVerdict(t *testing.T) {
	for _, c := range []struct {
		name   string
		checks []bool
		ok     bool
	}{{"all", []bool{true, true}, true}, {"one failed", []bool{true, false, true}, false}, {"none", nil, false}} {
		p := &page{}
		for _, ok := range c.checks {
			p.check(ok, "a number: %d", 1)
		}
		if err := p.verdict(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
