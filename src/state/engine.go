// SPDX-License-Identifier: Apache-2.0

package state

// The engines that a port can have.
const (
	EngineFlowtable = "flowtable" // the kernel's, what Flow.Engine says of its flows
	EngineXDP       = "xdp"       // the XDP program executes everything
	EngineAFXDP     = "afxdp"     // the XDP program steers, a worker per receive queue executes
)

// Engine is a packet engine on a port, as it is wanted or as it runs. Two are
// the same only if all of it is the same: the plan stops and starts again
// what differs, and a Refusal is about exactly one of them.
type Engine struct {
	Kind     string `json:"kind"`      // EngineXDP, EngineAFXDP
	Generic  bool   `json:"generic"`   // XDP in generic mode: the owner's wish, never a way out
	ZeroCopy bool   `json:"zero_copy"` // EngineAFXDP in native mode only
	// Force is option force: the port may be a virtual one, and the engine
	// stays although it doesn't earn its place.
	Force bool   `json:"force"`
	Mark  uint32 `json:"mark"` // the ct mark bit of the connections that engines take; the same for all ports
}

// Refusal is why a port hasn't got an engine that it could have had by its
// configuration: the attempt failed, or the engine has stepped aside. It holds
// until the port, or what is wanted, changes.
type Refusal struct {
	Want   Engine `json:"want"`
	Reason string `json:"reason"` // in words for the owner
}

// EngineCounters is what the engine of one port did with what came in by it.
type EngineCounters struct {
	Packets, Bytes uint64            // forwarded; bytes from the IP header on
	Passed         map[string]uint64 // packets handed to the slow path, by reason
	Dropped        map[string]uint64 // packets lost in the engine, or dropped by source, by reason
}
