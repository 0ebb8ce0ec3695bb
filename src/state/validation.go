// SPDX-License-Identifier: Apache-2.0

package state

// Validation is the rules that drop packets whose source can't be right. It stands
// where packets come to the router itself and where they are forwarded, not before
// the routing decision: there every packet would pay, also those of a flow
// whose socket or flowtable entry knows its way already (seed 004).
type Validation struct{ Input, Forward []Rule }

// Names in the kernel.
const (
	ValidateInput   = "validate-input"
	ValidateForward = "validate-forward"
	// ValidatePriority puts validation before the firewall's verdict (priority filter = 0).
	ValidatePriority = -10
)

// Same: both have the same rules.
func (v Validation) Same(w Validation) bool {
	return SameRules(v.Input, w.Input) && SameRules(v.Forward, w.Forward)
}
