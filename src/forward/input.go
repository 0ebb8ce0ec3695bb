// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"sync/atomic"

	"fastpath/src/packet"

	"golang.org/x/sys/unix"
)

// Input is the receiving half of one of a port's queues.
type Input struct {
	q     Queue
	alive Liveness
	pool  *Pool
	ring  int // slots of the fill ring: it is kept full
	held  int // frames in the fill and the rx ring
	got   int // packets of the burst in the worker's hands

	reasons [packet.NumReasons]uint64 // dropped of this burst
	count   inputCounters
}

// InputCounters is what came in by an input.
type InputCounters struct {
	Packets uint64 // received
	Starved uint64 // times that the kernel had no frame to receive into
	// Dropped are those that could not be forwarded any more, by reason. What an
	// output dropped is counted there.
	Dropped [packet.NumReasons]uint64
}

type inputCounters struct {
	packets, starved atomic.Uint64
	dropped          [packet.NumReasons]atomic.Uint64
}

// NewInput makes an input whose fill ring has ring slots, in filled of which are
// frames of pool already.
func NewInput(q Queue, alive Liveness, pool *Pool, ring, filled int) *Input {
	return &Input{q: q, alive: alive, pool: pool, ring: ring, held: filled}
}

// receive takes packets, as many as fit into descs.
func (in *Input) receive(descs []unix.XDPDesc) int {
	in.got = in.q.Receive(descs)
	in.held -= in.got
	return in.got
}

// refill keeps the fill ring full, by way of scratch: the kernel drops what finds
// it empty. The pool has enough frames as long as it has Frames() of them.
func (in *Input) refill(scratch []uint64) {
	for in.held < in.ring {
		n := in.pool.Take(scratch[:min(len(scratch), in.ring-in.held)])
		if n == 0 {
			break
		}
		m := in.q.Fill(scratch[:n])
		in.held += m
		if m < n {
			in.pool.Give(scratch[m:n])
			break
		}
	}
	in.q.WakeRx()
}

// tally makes the burst visible to readers.
func (in *Input) tally() {
	if in.got == 0 {
		return
	}
	in.count.packets.Add(uint64(in.got))
	for r, n := range in.reasons {
		if n > 0 {
			in.count.dropped[r].Add(n)
			in.reasons[r] = 0
		}
	}
}

// Counters may be read at any time.
func (in *Input) Counters() InputCounters {
	c := InputCounters{Packets: in.count.packets.Load(), Starved: in.count.starved.Load()}
	for i := range c.Dropped {
		c.Dropped[i] = in.count.dropped[i].Load()
	}
	return c
}
