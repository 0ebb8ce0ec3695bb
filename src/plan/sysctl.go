// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"

	"fastpath/src/config"
	"fastpath/src/state"
)

// wantedSysctls are those that the configuration needs.
func wantedSysctls(c config.Config) map[string]string {
	if c.Main.DeferPackets == 0 {
		return nil
	}
	return map[string]string{state.SysctlAcct: "1"}
}

// holdDefer is why flows can't be kept waiting for their first packets, so that
// nothing may be accelerated: nobody would count these.
func holdDefer(c config.Config, o state.Observed) string {
	if c.Main.DeferPackets == 0 || o.Sysctls[state.SysctlAcct].Value == "1" {
		return ""
	}
	need := fmt.Sprintf("defer_packets %d needs sysctl %s 1, ", c.Main.DeferPackets, state.SysctlAcct)
	if _, ours := o.SavedSysctls[state.SysctlAcct]; ours {
		return need + "which somebody has switched off again: set it, or restart fastpath"
	}
	if why := o.Sysctls[state.SysctlAcct].Fixed; why != "" {
		return need + "which can't be set: " + why
	}
	return ""
}

// sysctls are the steps for those: set before the table, given back after it.
// One that we set and somebody set otherwise since stays so: the owner's word.
func sysctls(want state.State, o state.Observed) (set, restore []state.Step) {
	for _, name := range slices.Sorted(maps.Keys(want.Sysctls)) {
		now := o.Sysctls[name]
		_, ours := o.SavedSysctls[name]
		if value := want.Sysctls[name]; now.Value != value && now.Fixed == "" && !ours {
			set = append(set, state.SetSysctl{Name: name, Value: value})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.SavedSysctls)) {
		if _, wanted := want.Sysctls[name]; !wanted {
			restore = append(restore, state.RestoreSysctl{Name: name, Saved: o.SavedSysctls[name]})
		}
	}
	return set, restore
}
