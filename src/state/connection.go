// SPDX-License-Identifier: Apache-2.0

package state

import "errors"

// ErrNoConnection: conntrack has no entry for a tuple.
var ErrNoConnection = errors.New("conntrack has no such connection")

// Connection is one entry of conntrack, with what the way of its packets
// depends on.
type Connection struct {
	Flow
	Status    uint32 `json:"status"`              // IPS_* bits (include/uapi/linux/netfilter/nf_conntrack_common.h)
	TCP       string `json:"tcp_state,omitempty"` // as /proc/net/nf_conntrack has it: ESTABLISHED, …; "" where the kernel doesn't tell
	Helper    string `json:"helper,omitempty"`    // ftp, sip, …
	Timeout   uint32 `json:"timeout_seconds"`     // until conntrack forgets it; 0 in a flowtable
	InDevice  string `json:"in_device_computed"`  // the IP device of the originator, by the route to it: iifname of its packets
	OutDevice string `json:"out_device_computed"` // that of the other end: their oifname
}

// The bits of Connection.Status that decide about acceleration.
const (
	StatusSeenReply = 1 << 1 // packets were seen in both directions
	StatusAssured   = 1 << 2
	StatusSeqAdjust = 1 << 6 // a helper changed the TCP stream's length
	StatusDying     = 1 << 9
	StatusNATClash  = 1 << 12
	StatusOffload   = 1 << 14 // in a flowtable
	StatusHardware  = 1 << 15 // in a flowtable, and executed by the NIC
)
