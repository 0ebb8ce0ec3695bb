// SPDX-License-Identifier: Apache-2.0

// Package flowsync picks the connections that the engines take, resolves their
// route, neighbour and encapsulation, and keeps their Actions in force for
// exactly as long as they are right.
package flowsync

import (
	"net/netip"

	"fastpath/src/packet"
)

// Port is a port with an engine.
type Port struct {
	Name    string
	Ifindex int
	Slot    uint16 // as in packet.Key and packet.Action
	Engine  string // state.EngineXDP, state.EngineAFXDP: both ends of a flow must have the same
}

// Sink is where flows are put into force. Its calls come one at a time.
type Sink interface {
	// Put adds one direction of a flow, or exchanges what is done with it.
	// The error is ErrFull if there is no room.
	Put(in Port, k packet.Key, a packet.Action) error
	// Delete removes it; that it isn't there is no error.
	Delete(k packet.Key) error
	// PutTunnel makes id (above 0) the packet.Key.Tunnel of IPv4 packets in
	// IPv6 packets from remote to local.
	PutTunnel(id uint16, local, remote netip.Addr) error
	DeleteTunnel(id uint16) error
	// Counters calls f with every flow's packets and bytes (from the IP header
	// on) since Put; they go on when an Action is exchanged.
	Counters(f func(k packet.Key, packets, bytes uint64)) error
}
