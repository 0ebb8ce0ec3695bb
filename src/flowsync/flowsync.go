// SPDX-License-Identifier: Apache-2.0

// Package flowsync picks the connections that the engines take, resolves their
// route, neighbour and encapsulation, and keeps their Actions in force for
// exactly as long as they are right.
//
// The ruleset sets one bit of the ct mark on a connection that engines may
// carry; conntrack tells. A connection becomes two directions, both or none,
// in these steps:
//
//	connection  what conntrack says of it (connection.go)
//	world       what rtnetlink says of links, neighbours and bridges (world.go)
//	route       the kernel's own answer for each direction (route.go)
//	end         an address behind a device: port, wire and next hop (end.go)
//	path        both ends as two keys and two actions, or why not (resolve.go)
//
// All of these are pure but for the reading. One goroutine, Run's, owns the
// table of flows and calls the Sink; whatever the kernel reports, and every
// call from outside, comes to it through a channel.
//
// Conntrack's events come only for connections that were made while somebody
// listened, the kernel may drop any of them, and it tells nothing of a PMTU or
// of a sysctl. So everything is read and judged anew every 10 s as well.
//
// In doubt there is no entry, and the packet takes the slow path: entries are
// deleted before others are added, both directions together, and a connection
// is told to be liberal about the TCP window before its first entry exists.
package flowsync

import (
	"errors"
	"net/netip"

	"fastpath/src/packet"
)

// ErrFull is Sink.Put's answer when there is no room for another flow.
var ErrFull = errors.New("no room for another flow")

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
