// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"sync/atomic"

	"fastpath/src/packet"
)

// Counters is what a worker did.
type Counters struct {
	Packets uint64 // received
	Bytes   uint64 // of those, as they came in
	Bursts  uint64
	Polls   uint64 // waits
	Starved uint64 // times that the queue had no frame to receive into
	// Dropped are the packets that could not be forwarded any more, by reason.
	// Those that an output dropped are counted there.
	Dropped [packet.NumReasons]uint64
	// NotNice: the kernel refused the nice value.
	NotNice bool
}

type counters struct {
	packets, bytes, bursts, polls, starved, unprivileged atomic.Uint64

	dropped [packet.NumReasons]atomic.Uint64
}

// Counters may be read at any time.
func (w *Worker) Counters() Counters {
	c := Counters{
		Packets: w.count.packets.Load(), Bytes: w.count.bytes.Load(), Bursts: w.count.bursts.Load(),
		Polls: w.count.polls.Load(), Starved: w.count.starved.Load(), NotNice: w.count.unprivileged.Load() != 0,
	}
	for i := range c.Dropped {
		c.Dropped[i] = w.count.dropped[i].Load()
	}
	return c
}

// Frames is the number of frames that a UMEM needs so that no receiver ever
// finds the pool empty: the fill rings full, every output at its limit, and a
// burst in each worker's hands.
func Frames(workers, ring, outputs, limit int) int {
	return workers*(ring+burstSize) + outputs*limit
}
