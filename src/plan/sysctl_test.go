// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"maps"
	"strings"

	"fastpath/src/state"
)

// sysctlStep does what a kernel does, and saved.json.
func (r *router) sysctlStep(step state.Step) error {
	switch s := step.(type) {
	case state.SetSysctl:
		now := r.o.Sysctls[s.Name]
		if now.Fixed != "" {
			return errors.New("EROFS: " + now.Fixed)
		}
		r.o.Sysctls, r.o.SavedSysctls = maps.Clone(r.o.Sysctls), maps.Clone(r.o.SavedSysctls)
		if _, saved := r.o.SavedSysctls[s.Name]; !saved {
			r.o.SavedSysctls[s.Name] = now.Value
		}
		r.o.Sysctls[s.Name] = state.Sysctl{Value: s.Value}
	case state.RestoreSysctl:
		was, saved := r.o.SavedSysctls[s.Name]
		if !saved || was != s.Saved {
			return errors.New("nothing is saved")
		}
		r.o.Sysctls, r.o.SavedSysctls = maps.Clone(r.o.Sysctls), maps.Clone(r.o.SavedSysctls)
		if r.o.Sysctls[s.Name].Value == "1" { // else somebody has changed it
			r.o.Sysctls[s.Name] = state.Sysctl{Value: was}
		}
		delete(r.o.SavedSysctls, s.Name)
	}
	return nil
}

// sysctlEvent is somebody's "acct VALUE [REASON…]", with the reason why it can't
// be changed, or what a run before has left: "acct-saved VALUE".
func (r *router) sysctlEvent(word string, args []string) bool {
	switch word {
	case "acct":
		r.o.Sysctls = map[string]state.Sysctl{state.SysctlAcct: {Value: args[0], Fixed: strings.Join(args[1:], " ")}}
	case "acct-saved":
		r.o.SavedSysctls = map[string]string{state.SysctlAcct: args[0]}
	default:
		return false
	}
	return true
}
