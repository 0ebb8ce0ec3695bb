// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A ring is shared with the kernel: one side produces, the other consumes, and
// each index is written by one side only. Indexes are free-running uint32; the
// slot is index & mask, so they may wrap around.
//
// Order matters on every CPU but x86: the slots are written before the producer
// index is published, and read after it was seen; a slot is given back (by the
// consumer index) after it was read. sync/atomic is sequentially consistent, so
// its loads acquire and its stores release; it also orders the store of the
// producer index before the load of the need_wakeup flag.

// slot is what a ring carries: frame addresses (fill, completion) or
// descriptors (rx, tx).
type slot interface{ uint64 | unix.XDPDesc }

// producer is our end of a fill or tx ring.
type producer[T slot] struct {
	producer *uint32 // we write it
	consumer *uint32 // the kernel writes it
	flags    *uint32 // the kernel writes it: XDP_RING_NEED_WAKEUP
	slots    []T
	next     uint32 // what we last stored in *producer
	seen     uint32 // what we last loaded from *consumer; never ahead of it
}

// push puts as many of items into the ring as there is room for, publishes
// them, and returns their number.
func (r *producer[T]) push(items []T) int {
	size := uint32(len(r.slots))
	free := size - (r.next - r.seen)
	if uint64(free) < uint64(len(items)) {
		r.seen = atomic.LoadUint32(r.consumer)
		free = size - (r.next - r.seen)
	}
	n := min(len(items), int(free))
	if n == 0 {
		return 0
	}
	for i, item := range items[:n] {
		r.slots[(r.next+uint32(i))&(size-1)] = item
	}
	r.next += uint32(n)
	atomic.StoreUint32(r.producer, r.next)
	return n
}

// pending is the number of items that the kernel has not taken yet.
func (r *producer[T]) pending() int {
	r.seen = atomic.LoadUint32(r.consumer)
	return int(r.next - r.seen)
}

// needWakeup tells whether the kernel waits for a system call before it looks
// at the ring.
func (r *producer[T]) needWakeup() bool {
	return atomic.LoadUint32(r.flags)&unix.XDP_RING_NEED_WAKEUP != 0
}

// consumer is our end of an rx or completion ring.
type consumer[T slot] struct {
	producer *uint32 // the kernel writes it
	consumer *uint32 // we write it
	slots    []T
	next     uint32 // what we last stored in *consumer
	seen     uint32 // what we last loaded from *producer; never ahead of it
}

// pop takes up to len(items) items out of the ring and returns their number.
func (r *consumer[T]) pop(items []T) int {
	if uint64(r.seen-r.next) < uint64(len(items)) {
		r.seen = atomic.LoadUint32(r.producer)
	}
	n := min(len(items), int(r.seen-r.next))
	if n == 0 {
		return 0
	}
	mask := uint32(len(r.slots)) - 1
	for i := range items[:n] {
		items[i] = r.slots[(r.next+uint32(i))&mask]
	}
	r.next += uint32(n)
	atomic.StoreUint32(r.consumer, r.next)
	return n
}

// newProducer and newConsumer lay a ring of size slots over its mapping
// (include/uapi/linux/if_xdp.h: struct xdp_ring_offset).
func newProducer[T slot](mem []byte, off unix.XDPRingOffset, size uint32) producer[T] {
	r := producer[T]{
		producer: index(mem, off.Producer),
		consumer: index(mem, off.Consumer),
		flags:    index(mem, off.Flags),
		slots:    unsafe.Slice((*T)(unsafe.Pointer(&mem[off.Desc])), size),
	}
	r.next = atomic.LoadUint32(r.producer)
	r.seen = atomic.LoadUint32(r.consumer)
	return r
}

func newConsumer[T slot](mem []byte, off unix.XDPRingOffset, size uint32) consumer[T] {
	r := consumer[T]{
		producer: index(mem, off.Producer),
		consumer: index(mem, off.Consumer),
		slots:    unsafe.Slice((*T)(unsafe.Pointer(&mem[off.Desc])), size),
	}
	r.seen = atomic.LoadUint32(r.producer)
	r.next = atomic.LoadUint32(r.consumer)
	return r
}

// The indexes of a ring that is not mapped any more; nobody writes them. The flag
// lets Kick get as far as the closed descriptor.
var noIndex, noFlags uint32 = 0, unix.XDP_RING_NEED_WAKEUP

func noProducer[T slot]() producer[T] {
	return producer[T]{producer: &noIndex, consumer: &noIndex, flags: &noFlags}
}

func noConsumer[T slot]() consumer[T] {
	return consumer[T]{producer: &noIndex, consumer: &noIndex}
}

func index(mem []byte, off uint64) *uint32 { return (*uint32)(unsafe.Pointer(&mem[off])) }
