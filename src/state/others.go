// SPDX-License-Identifier: Apache-2.0

package state

// Bridger is what Observed.Accelerators calls the daemon of that name. It
// forwards bridged packets at tc ingress, and no routed ones.
const Bridger = "bridger"

// ForeignFlowtable is a flowtable that is neither ours nor fw4's.
type ForeignFlowtable struct {
	Table    string // family and name: ip nat
	Name     string
	Devices  []string // sorted
	Hardware bool     // with flags offload
}
