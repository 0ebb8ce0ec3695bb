// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// NotYet has a line for each thing that is set and valid but has no effect in
// this version.
func (c Config) NotYet() []string {
	var lines []string
	say := func(at Pos, format string, args ...any) {
		lines = append(lines, Problem{at, fmt.Sprintf(format, args...)}.String())
	}
	if c.Main.SourceValidation != "" && c.Main.SourceValidation != ValidationOff {
		say(c.Main.Pos, "source_validation has no effect in this version; addresses are not checked")
	}
	if c.Main.DeferPackets > 0 {
		say(c.Main.Pos, "defer_packets has no effect in this version; nothing is accelerated instead")
	}
	for _, p := range c.Policies {
		if p.Action == Bypass {
			say(p.Pos, "policies have no effect in this version; because of '%s' nothing is accelerated instead", p.Name)
		} else {
			say(p.Pos, "policies have no effect in this version; '%s' is passed over", p.Name)
		}
	}
	for _, d := range c.Drops {
		say(d.Pos, "drop sections have no effect in this version; nothing is dropped for '%s'", d.Name)
	}
	return lines
}

// Withhold says that nothing may be accelerated, and why: the owner wants
// packets kept on the slow path that this version would accelerate.
func (c Config) Withhold() (reason string, yes bool) {
	if n := c.Main.DeferPackets; n > 0 {
		return fmt.Sprintf("defer_packets %d keeps the first packets of each flow on the slow path, which this version can't do", n), true
	}
	for _, p := range c.Policies {
		if p.Action == Bypass {
			return fmt.Sprintf("policy '%s' keeps flows on the slow path, which this version can't do", p.Name), true
		}
	}
	return "", false
}
