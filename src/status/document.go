// SPDX-License-Identifier: Apache-2.0

// Package status is what fastpath tells about itself: the document, its
// texts for a person, the traffic's shares, and the control socket
// <run dir>/control.sock over which they are asked for.
//
// The JSON names are stable: LuCI and scripts read them. A field that we
// computed, because the kernel doesn't tell it, ends in _computed.
package status

import (
	"time"

	"fastpath/src/state"
)

// Document is the answer to the request "status", and what
// `fastpath status --json` prints. Times are RFC 3339.
type Document struct {
	Version  string       `json:"version"`
	PID      int          `json:"pid"`
	Since    time.Time    `json:"since"`
	Kernel   string       `json:"kernel"` // uname -r
	Report   state.Report `json:"report"`
	Early    EarlyCheck   `json:"early_ingress_check"`
	Traffic  Traffic      `json:"traffic"`
	Policies []Policy     `json:"policies"` // in force, in their order
	Drops    Drops        `json:"drops"`
	// Mix is what came in by the ports, Multicast why devices are taken to carry
	// multicast TV: by these the receive modes were chosen.
	Mix       map[string]state.Mix `json:"mix_computed"` // by port
	Multicast map[string]string    `json:"multicast"`    // by device
	// Engines are those that run, Refused why ports haven't got the one that
	// was wanted. `fastpath plan` needs both: only the daemon knows them.
	Engines map[string]state.Engine  `json:"engines"` // by port
	Refused map[string]state.Refusal `json:"refused"` // by port
	// Passive is why this run of the daemon changes nothing.
	Passive string `json:"passive,omitempty"`
	// Recommendations are changes to the configuration that would pay.
	Recommendations []string `json:"recommendations"`
	Look            Look     `json:"last_look"`
	Plan            Plan     `json:"last_plan"`
	Config          Config   `json:"configuration"`
}

// Policy is one policy section, or what a DSCP or MARK rule of fw4 amounts to.
type Policy struct {
	Name   string `json:"name"`
	Action string `json:"action"` // accelerate, bypass
	// Packets of the slow path that it decided, since it is in force as it is;
	// of flows that it lets accelerate, only the first few are on the slow path.
	Packets uint64 `json:"packets"`
}

// Look is the last look at the kernel.
type Look struct {
	Time  time.Time `json:"time"`
	Count uint64    `json:"count"` // looks since the start
	// Steps and FailedSteps since the start.
	Steps       uint64 `json:"steps"`
	FailedSteps uint64 `json:"failed_steps"`
	// Problems are what went wrong in it; empty after a look that left
	// nothing to do. RetrySeconds is then the wait before the next look.
	Problems     []string `json:"problems"`
	RetrySeconds float64  `json:"retry_seconds"`
}

// Plan is the last plan that had steps.
type Plan struct {
	Time  time.Time `json:"time"` // the zero time: there was none yet
	Steps []Step    `json:"steps"`
}

// Step is one step of a plan. Error is empty when it was done.
type Step struct {
	Text  string `json:"step"`
	Error string `json:"error,omitempty"`
}

// Config tells which configuration is in force.
type Config struct {
	// InForce is "as written", "last good" (the files have errors and the
	// configuration before them is kept) or "lenient" (the files had errors
	// at the start, when there was none to keep: what could be read counts).
	InForce  string   `json:"in_force"`
	Problems []string `json:"problems"` // file:line: reason
}

// The values of Config.InForce.
const (
	AsWritten = "as written"
	LastGood  = "last good"
	Lenient   = "lenient"
)

// EarlyCheck is what the behaviour of the kernel said about early_ingress.
type EarlyCheck struct {
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason"`
}

// Verdict of the behaviour check.
type Verdict string

// The verdicts. A hook that isn't in use is Unknown.
const (
	Unknown   Verdict = "unknown"
	Confirmed Verdict = "confirmed" // accelerated packets were seen to bypass netdev ingress
	Refuted   Verdict = "refuted"   // they weren't: the hook isn't what its number promised
)

// Override puts what behaviour showed over what trials showed.
func (c EarlyCheck) Override(h state.Hooks) state.Hooks {
	switch c.Verdict {
	case Confirmed:
		h.Confirmed = true
	case Refuted:
		h.Early = state.Ability{Reason: c.Reason}
	}
	return h
}
