// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"fastpath/src/state"
)

// qosmateTable is where qosmate has its rules.
const qosmateTable = "inet dscptag"

// noteSetters says which rules of others, that no configuration tells of, set
// what a packet's class is told by, and what becomes of that. A mark is seen by
// our own rules; what sets a DSCP can't be found at a packet. Where routes are
// chosen by marks, these are for that.
func (s *survey) noteSetters() {
	routed := slices.ContainsFunc(s.o.Routing.Rules, func(r state.RoutingRule) bool { return r.Mask != 0 })
	for _, setter := range s.o.Setters {
		table := "table " + setter.Table
		if setter.Table == qosmateTable {
			table += " (qosmate)"
		}
		var what []string
		if setter.DSCP {
			what = append(what, "DSCP")
		}
		if setter.Priority {
			what = append(what, "priority")
		}
		if what != nil {
			s.notice(table, " sets the ", list(what), " of packets, and accelerated packets pass it by; ",
				"a policy with action 'bypass' keeps them from that")
		}
		if setter.Mark && !routed {
			s.notice(table, " sets marks: packets that bear one stay on the slow path")
		}
	}
}
