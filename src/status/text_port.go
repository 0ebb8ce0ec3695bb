// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
)

// write prints a port's traffic; engine is what runs there now.
func (t PortTraffic) write(b *strings.Builder, engine string) {
	passed, lost := total(t.Passed), total(t.Dropped)
	if engine == "" && t.Engine.Packets+passed+lost == 0 {
		fmt.Fprintf(b, "  traffic  in %s; out %s\n", t.Rx, t.Tx)
		return
	}
	fmt.Fprintf(b, "  traffic  in %s; out %s; the engine forwarded %s\n", t.Rx, t.Tx, t.Engine)
	writeReasons(b, "passed", plural(passed, "packet")+" to the kernel", t.Passed)
	writeReasons(b, "dropped", plural(lost, "packet"), t.Dropped)
}

// writeReasons leaves out what never happened; the most frequent comes first.
func writeReasons(b *strings.Builder, row, all string, by map[string]uint64) {
	names := slices.Sorted(maps.Keys(by))
	sort.SliceStable(names, func(i, j int) bool { return by[names[i]] > by[names[j]] })
	var parts []string
	for _, name := range names {
		if by[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", by[name], or(reasonWords[name], name)))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "  %-8s %s: %s\n", row, all, strings.Join(parts, ", "))
	}
}

// reasonWords are the engines' reasons (src/packet/reason.go,
// src/engine/counters.go) for a person; JSON and metrics have their names.
var reasonWords = map[string]string{
	"truncated": "cut short",
	"multicast": "multicast or broadcast",
	"not-ours":  "not addressed to this port",
	"not-ip":    "not IP (ARP, PPP control and the like)",
	"length":    "with lying lengths",
	"fragment":  "IP fragments",
	"options":   "with IP options or extension headers",
	"ttl":       "at the end of their TTL",
	"other-l4":  "neither TCP nor UDP",
	"tcp-flags": "TCP that begins or ends",
	"no-flow":   "of connections that the engine doesn't carry",
	"too-big":   "too big for the output's MTU",
	"stale":     "while the daemon or a worker didn't answer",
	"no-output": "whose output port was missing",
	"no-room":   "without room for the new header",
	"shed":      "because the worker was overrun",

	"tx-ring-full": "that found this port's transmit ring full",
	"link-down":    "to leave by this port while its link was down",
	"no-frame":     "for which the worker had no free frame",
	"rx-ring-full": "because the worker was behind",
	"not-received": "that the kernel couldn't copy",
}
