// SPDX-License-Identifier: Apache-2.0

package state

// MixKind is what a port's traffic is mostly made of.
type MixKind string

// The kinds. The empty one: not known (yet), or nothing clear.
const (
	MixMany  MixKind = "many"  // forwarded, many flows at a time: GRO finds little to join
	MixFew   MixKind = "few"   // forwarded, few flows at a time: GRO joins them
	MixLocal MixKind = "local" // for the router itself: GRO helps, a flowtable doesn't
)

// Mix is the traffic that came in by one port, as it was over the window of
// time in which its Kind had held for long enough. All of it is computed from samples.
type Mix struct {
	Kind MixKind `json:"kind"`
	// Received is more than the sum of the two by what nobody knows: bridged
	// frames, and flows that ended between two samples.
	Received  uint64 `json:"received_bytes"`
	Forwarded uint64 `json:"forwarded_bytes"` // by flowtable, engine or slow path
	Local     uint64 `json:"local_bytes"`     // for the router itself
	Packets   uint64 `json:"packets"`         // that the driver received
	Flows     int    `json:"flows"`           // forwarded at a time: as many as would carry the same, were they equal
	// Compared is what the last change for this port's traffic did to the CPU's
	// work, and whether it was taken back, in words for the owner; "": none was compared.
	Compared string `json:"compared,omitempty"`
}
