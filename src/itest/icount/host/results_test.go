// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strings"
	"testing"

	"fastpath/src/itest/icount"
)

// Every name that is counted is a path, and what the ratios speak of is counted.
func TestNames(t *testing.T) {
	for _, name := range names {
		if _, err := icount.PathOf(name); err != nil {
			t.Error(err)
		}
	}
}

func counted() (c icount.Counted) {
	for i, path := range names {
		for _, n := range flows {
			c.Costs = append(c.Costs, icount.Cost{Path: path, Flows: n, Instructions: float64(4000 / (i + 1))})
		}
	}
	return c
}

// A ratio says how many times more packets, and the RFC's claim stands beside
// those that could be the RFC's.
func TestRatios(t *testing.T) {
	seen := 0
	for _, r := range newResults(counted()).Ratios {
		if r.Of != early {
			continue
		}
		want := map[string]float64{icount.SlowPath: 4, ingress: 2, fraglist: 4 / 3.}[r.Over]
		if math.Abs(r.Ratio-want) > 0.01 {
			t.Errorf("%+v, want ratio %.2f", r, want)
		}
		if claim := map[int]float64{1: 2, 10: 1.48}[r.Flows]; r.Over != fraglist && math.Abs(r.Claim-claim) > 0.005 || r.Over == fraglist && r.Claim != 0 {
			t.Errorf("%+v, want claim %.2f unless it is about fraglist", r, claim)
		}
		seen++
	}
	if seen != 6 {
		t.Errorf("%d ratios of early_ingress, want 6", seen)
	}
}

// What a kernel doesn't have is absent, with the reason, and has no ratio.
func TestAbsent(t *testing.T) {
	c := counted()
	var there []icount.Cost
	for _, x := range c.Costs {
		if !strings.Contains(x.Path, "early") {
			there = append(there, x)
		}
	}
	c.Costs = there
	c.Absent = []icount.Absent{{Path: early, Flows: 1, Why: "errno 95"}}
	var b strings.Builder
	r := newResults(c)
	r.print(&b)
	if len(r.Ratios) > 0 || strings.Count(b.String(), "   absent") != 4 || !strings.Contains(b.String(), "flows: 1: errno 95") {
		t.Errorf("%+v\n%s", r.Ratios, &b)
	}
}
