// SPDX-License-Identifier: Apache-2.0

// Package demo names what `make demo` shows. Command host boots a VM for it,
// command guest shows it in there.
package demo

import (
	"fmt"
	"slices"
	"strings"
)

// Scenario is one page of the demo.
type Scenario struct {
	Name  string // as in SCENARIO=
	Shows string
}

// Scenarios are all pages but the first, which needs no name: a PPPoE or
// DS-Lite router that is accelerated.
var Scenarios = []Scenario{
	{"iptv", "multicast TV stays in order beside accelerated TCP, and decides how its port receives"},
	{"sqm", "what sqm-scripts shapes stays shaped, both ways, and goes by the fastest path that keeps it so"},
	{"two-wans", "one of two WANs goes down: its flows leave within a second, the other's stay"},
	{"roaming", "a host moves to another LAN port, and its traffic follows within a second"},
	{"dslite", "DS-Lite in engines, and in the flowtable where the kernel can"},
	{"early-drop", "100,000 unwanted senders dropped at the earliest hook, behind PPPoE and VLAN"},
}

// Find returns a scenario by its name, or an error that lists all.
func Find(name string) (Scenario, error) {
	i := slices.IndexFunc(Scenarios, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return Scenario{}, fmt.Errorf("SCENARIO=%s: there are\n%s", name, List())
	}
	return Scenarios[i], nil
}

// List is a line for each scenario.
func List() string {
	var b strings.Builder
	for _, s := range Scenarios {
		fmt.Fprintf(&b, "  %-10s  %s\n", s.Name, s.Shows)
	}
	return b.String()
}
