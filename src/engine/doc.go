// SPDX-License-Identifier: Apache-2.0

// Package engine runs the packet engines: it attaches the XDP program, opens
// the sockets and runs the workers on the ports that the plan names, and gives
// flowsync a place to put flows.
package engine
