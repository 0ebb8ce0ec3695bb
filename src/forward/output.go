// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Output is the sending half of one of a port's queues.
type Output struct {
	q       Queue
	pool    *Pool
	limit   int  // most frames it may hold: one that never completes must not starve the inputs
	held    int  // frames in the tx ring, in the device or in the completion ring
	down    bool // the last kick said that the device can't send
	backlog bool // packets are left in the tx ring: somebody has to kick again

	bulk  []unix.XDPDesc // of the burst in the worker's hands, in the order of arrival
	done  [burstSize]uint64
	count outputCounters
}

// OutputCounters is what happened to packets at an output.
type OutputCounters struct {
	Queued uint64 // put into the tx ring
	Full   uint64 // dropped: the tx ring, or the limit of frames, was full
	Down   uint64 // dropped: the link was down, or the device gone
	Kicks  uint64 // system calls
}

type outputCounters struct{ queued, full, down, kicks atomic.Uint64 }

// NewOutput makes an output that holds at most limit frames of pool at a time,
// which should be the size of q's tx ring.
func NewOutput(q Queue, pool *Pool, limit int) *Output {
	return &Output{q: q, pool: pool, limit: limit, bulk: make([]unix.XDPDesc, 0, burstSize)}
}

// send queues the bulk and wakes the kernel for it. What finds no room is
// dropped and counted: it never waits for a device.
func (o *Output) send() {
	bulk := o.bulk
	o.bulk = o.bulk[:0]
	o.reap()
	if o.down {
		o.kick() // has it come back?
	}
	n := 0
	for tries := 0; tries < 2 && n < len(bulk) && !o.down; tries++ {
		m := o.queue(bulk[n:])
		if m == 0 && tries > 0 {
			break
		}
		n += m
		o.kick() // even if nothing fitted: it makes room, and busy workers have no other moment for it
	}
	if n == len(bulk) {
		return
	}
	if o.down {
		o.count.down.Add(uint64(len(bulk) - n))
	} else {
		o.count.full.Add(uint64(len(bulk) - n))
	}
	o.pool.giveDescs(bulk[n:])
}

// queue puts packets into the tx ring, as far as there is room.
func (o *Output) queue(bulk []unix.XDPDesc) int {
	n := o.q.Transmit(bulk[:min(len(bulk), o.limit-o.held)])
	o.held += n
	o.count.queued.Add(uint64(n))
	return n
}

// kick wakes the kernel until the tx ring is empty, or nothing moves any more.
// In copy mode a call sends 32 packets (more since 6.17) and says EAGAIN if there
// are more; a full completion ring stops it as well, so completions are always
// reaped in between.
func (o *Output) kick() {
	left := o.q.Unsent()
	for {
		err := o.q.Kick()
		o.count.kicks.Add(1)
		o.down = err == unix.ENETDOWN || err == unix.ENXIO || err == unix.ENODEV
		reaped, before := o.reap(), left
		left = o.q.Unsent()
		if left == 0 || o.down || left == before && reaped == 0 {
			break
		}
	}
	o.backlog = left > 0
}

// reap moves completed frames into the pool.
func (o *Output) reap() (reaped int) {
	for {
		n := o.q.Complete(o.done[:])
		if n == 0 {
			break
		}
		o.pool.Give(o.done[:n])
		reaped += n
	}
	o.held -= reaped
	return reaped
}

// retry kicks again for packets that an earlier kick left behind.
func (o *Output) retry() {
	if o.backlog {
		o.reap()
		o.kick()
	}
}

// Counters may be read at any time.
func (o *Output) Counters() OutputCounters {
	return OutputCounters{
		Queued: o.count.queued.Load(), Full: o.count.full.Load(),
		Down: o.count.down.Load(), Kicks: o.count.kicks.Load(),
	}
}
