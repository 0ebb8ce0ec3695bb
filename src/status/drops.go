// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Drops is what is dropped because of where it says that it comes from, with packets
// since the rules are there as they are.
type Drops struct {
	V4         int               `json:"ipv4_entries"` // of the drop sections
	V6         int               `json:"ipv6_entries"`
	Ports      map[string]uint64 `json:"ports"`      // packets of listed sources, by port
	Validation string            `json:"validation"` // strict, loose, "": sources aren't checked
	Invalid    uint64            `json:"invalid"`    // packets that validation dropped
}

func (d Drops) write(b *strings.Builder) {
	var lines []string
	for _, port := range slices.Sorted(maps.Keys(d.Ports)) {
		lines = append(lines, fmt.Sprintf("%s: %s", port, plural(d.Ports[port], "packet")))
	}
	writeList(b, fmt.Sprintf("Dropped by source, %d IPv4 and %d IPv6 entries", d.V4, d.V6), lines)
	if d.Validation != "" {
		writeList(b, "Dropped by source validation", []string{fmt.Sprintf("%s: %s", d.Validation, plural(d.Invalid, "packet"))})
	}
}

func (m *metrics) drops(d Drops) {
	if len(d.Ports) > 0 {
		m.family("fastpath_dropped_packets_total", "counter", "Packets of listed sources that were dropped, by port.")
		for _, port := range slices.Sorted(maps.Keys(d.Ports)) {
			m.line("fastpath_dropped_packets_total", float64(d.Ports[port]), label{"port", port})
		}
	}
	if d.Validation != "" {
		m.single("fastpath_invalid_source_packets_total", "counter", "Packets that source validation dropped.", float64(d.Invalid))
	}
}
