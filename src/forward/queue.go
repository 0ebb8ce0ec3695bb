// SPDX-License-Identifier: Apache-2.0

package forward

import "golang.org/x/sys/unix"

// Queue is one AF_XDP socket as a worker sees it; *xsk.Socket is one. The half
// {Fill, WakeRx, Receive} is used by an Input, the half {Transmit, Unsent, Kick,
// Complete} by an Output; both are one worker's. No method blocks.
type Queue interface {
	// FD polls readable while packets wait to be received.
	FD() int
	// Fill hands empty frames to the kernel and returns how many it took.
	Fill(addrs []uint64) int
	// WakeRx makes the kernel look at the filled frames, if it waits for that.
	WakeRx()
	// Receive takes received packets and returns their number.
	Receive(descs []unix.XDPDesc) int
	// Transmit queues packets and returns how many fitted.
	Transmit(descs []unix.XDPDesc) int
	// Unsent is the number of queued packets that the kernel hasn't looked at.
	Unsent() int
	// Kick makes the kernel send some of what is queued; see xsk.Socket.Kick
	// for its errors, which are bare errnos.
	Kick() error
	// Complete takes the addresses of frames that the kernel is done with.
	Complete(addrs []uint64) int
}

// Liveness is how the XDP program learns that a queue's worker is alive, or that
// it must let the packets up; *bpf.Queue is one.
type Liveness interface {
	// Answer says that the worker has looked at its rx ring just now.
	Answer()
	// Behind tells whether packets were given to the queue since.
	Behind() bool
}
