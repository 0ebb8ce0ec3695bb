// SPDX-License-Identifier: Apache-2.0

package packet

// Reason says why a frame goes to the slow path or is lost. It is enum reason of
// src/bpf/shared.h.
type Reason uint8

// The reasons, in the order of the checks.
const (
	Forward   Reason = iota // none: the frame is forwarded
	Truncated               // the frame ends inside a header
	Multicast               // a group address at layer 2
	NotOurs                 // the destination MAC is neither the port's nor its bridge's
	NotIP                   // another protocol, a third VLAN tag, PPPoE or PPP control
	Length                  // the lengths contradict each other
	Fragment                // IPv4 fragment or IPv6 fragment header
	Options                 // IPv4 options, an IPv6 extension header, or a tunnel's packet that met congestion
	TTL                     // TTL or hop limit is used up: the kernel answers
	OtherL4                 // neither TCP nor UDP
	Flags                   // TCP SYN, FIN or RST: conntrack has to see it
	NoFlow                  // no flow in the map
	DropList                // dropped: it has no flow, and its source is in the drop list
	TooBig                  // longer than the output's MTU: the kernel answers
	Stale                   // the daemon or the queue's worker doesn't answer
	NoOutput                // the output port or the queue's socket is not there
	NoRoom                  // no room for the new header or for the metadata
	Shed                    // dropped: the queue's worker is a whole ring behind
	NumReasons
)

var reasonNames = [NumReasons]string{
	"forward", "truncated", "multicast", "not-ours", "not-ip", "length", "fragment", "options",
	"ttl", "other-l4", "tcp-flags", "no-flow", "drop-list", "too-big", "stale", "no-output", "no-room", "shed",
}

// String is the reason's name in status and metrics.
func (r Reason) String() string {
	if r < NumReasons {
		return reasonNames[r]
	}
	return "unknown"
}
