// SPDX-License-Identifier: Apache-2.0

package state

// Report says in the owner's words what was decided and why. The plan makes
// it beside the State; status prints it.
type Report struct {
	Enabled    bool         `json:"enabled"`
	Hook       Hook         `json:"hook"`
	HookReason string       `json:"hook_reason"`
	Ports      []PortReport `json:"ports"`
	Notices    []string     `json:"notices"` // conflicts, things waited for, options without effect yet
}

// PortReport is one port's decisions, each with its reason.
type PortReport struct {
	Name          string `json:"name"`
	Networks      string `json:"networks"` // logical interfaces above it, comma separated
	Path          string `json:"path"`     // the stacking from the top: pppoe-wan / eth0.35 / eth0
	Hook          Hook   `json:"hook"`
	HookReason    string `json:"hook_reason"`
	Receive       string `json:"receive"`
	ReceiveReason string `json:"receive_reason"`
	Engine        string `json:"engine"`
	EngineReason  string `json:"engine_reason"`
}
