// SPDX-License-Identifier: Apache-2.0

// Package engine runs the packet engines: it attaches the XDP program, opens
// the sockets and runs the workers on the ports that the plan names, and gives
// flowsync a place to put flows.
//
//	Start(port) ─▶ program loaded (first port) ─▶ attached by bpf_link ─▶ afxdp: sockets, workers
//	            ─▶ output proved ─▶ in the devmap ─▶ flowsync may use the port
//	Stop(port)  ─▶ flowsync gives its flows up ─▶ out of the devmap ─▶ workers, sockets ─▶ detached
//
// A port that can't have its engine is no error: it is refused with one line
// (state.Refusal) and the slow path or the flowtable carries it. Observe tells
// what really runs, by what rtnetlink shows, and forgets a refusal when its port
// has changed.
//
// An engine without option force has to earn its place. See trial.go.
package engine
