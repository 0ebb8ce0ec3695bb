// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fastpath/src/state"
	"fastpath/src/status"
)

// watchDrops remembers what is dropped where, for the status.
func (a *Agent) watchDrops(want state.State) {
	now := status.Drops{Validation: a.validation(), Invalid: a.drops.Invalid, Ports: map[string]uint64{}}
	if want.Drop != nil {
		for _, s := range want.Drop.Sets {
			now.V4, now.V6 = now.V4+len(s.V4), now.V6+len(s.V6)
		}
		for _, c := range want.Drop.Chains {
			now.Ports[c.Port] = a.drops.Ports[c.Port]
		}
	}
	a.drops = now
}

// validation is the mode in force: that of the table, which may not have it.
func (a *Agent) validation() string {
	if a.table == nil || len(a.table.Validation.Input) == 0 {
		return ""
	}
	return a.conf.Main.SourceValidation
}

// countDrops reads what was dropped.
func (a *Agent) countDrops() error {
	if a.drops.Validation == "" && len(a.drops.Ports) == 0 {
		return nil
	}
	counters, err := a.Kernel.Counters()
	if err != nil {
		return err
	}
	a.noteDrops(counters)
	return nil
}

// noteDrops takes what was dropped from the counters.
func (a *Agent) noteDrops(c state.Counters) {
	ports := map[string]uint64{}
	for port := range a.drops.Ports {
		ports[port] = c.Dropped[port]
	}
	a.drops.Ports, a.drops.Invalid = ports, c.Invalid
}
