// SPDX-License-Identifier: Apache-2.0

package state

// The engines that a port can have besides the kernel's flowtable.
const (
	EngineXDP   = "xdp"   // the XDP program executes everything
	EngineAFXDP = "afxdp" // the XDP program steers, a worker per receive queue executes
)

// Engine is a packet engine on a port, as it is wanted or as it runs.
type Engine struct {
	Kind     string // EngineXDP, EngineAFXDP
	Generic  bool   // XDP in generic mode
	ZeroCopy bool   // EngineAFXDP
	Mark     uint32 // the ct mark bit of the connections that engines take; the same for all ports
}

// Refusal is why a port hasn't got an engine that it could have had by its
// configuration: the attempt failed, or the engine has stepped aside. It holds
// until the port, or what is wanted, changes.
type Refusal struct {
	Want   Engine
	Reason string // in words for the owner
}

// EngineCounters is what the engine of one port did with what came in by it.
type EngineCounters struct {
	Packets, Bytes uint64            // forwarded; bytes from the IP header on
	Passed         map[string]uint64 // packets handed to the slow path, by reason
	Dropped        map[string]uint64 // packets lost in the engine, by reason
}
