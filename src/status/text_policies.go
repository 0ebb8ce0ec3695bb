// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
)

// writePolicies prints the policies, the first that matches decides.
func (d Document) writePolicies(b *strings.Builder) {
	var lines []string
	for _, p := range d.Policies {
		lines = append(lines, fmt.Sprintf("%-10s %q: %s", p.Action, p.Name, plural(p.Packets, "packet")))
	}
	writeList(b, "Policies, the first that matches decides, with packets of the slow path that matched", lines)
}

func (m *metrics) policies(all []Policy) {
	m.family("fastpath_policy_packets_total", "counter", "Packets of the slow path that each policy decided.")
	for _, p := range all {
		m.line("fastpath_policy_packets_total", float64(p.Packets), label{"policy", p.Name}, label{"action", p.Action})
	}
}
