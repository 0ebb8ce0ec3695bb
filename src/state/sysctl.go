// SPDX-License-Identifier: Apache-2.0

package state

import "fmt"

// SysctlAcct is the sysctl by which conntrack counts packets. Connections that
// began while it was 0 are never counted.
const SysctlAcct = "net.netfilter.nf_conntrack_acct"

// Sysctl is one as the kernel has it.
type Sysctl struct {
	Value string
	Fixed string // why it can't be changed; "" if it can
}

type (
	// SetSysctl saves what a sysctl is, if that hasn't been done yet, and sets it.
	SetSysctl struct{ Name, Value string }
	// RestoreSysctl gives it back the value from before us, unless somebody has
	// changed it meanwhile, and forgets it.
	RestoreSysctl struct{ Name, Saved string }
)

func (SetSysctl) step()     {}
func (RestoreSysctl) step() {}

func (s SetSysctl) String() string { return fmt.Sprintf("set sysctl %s to %s", s.Name, s.Value) }

func (s RestoreSysctl) String() string {
	return fmt.Sprintf("give sysctl %s back its own value %s", s.Name, s.Saved)
}
