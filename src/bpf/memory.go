// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memory is an array map's values, shared with the program.
type memory []byte

func mapMemory(t table, m mapSpec) (memory, error) {
	page := os.Getpagesize()
	stride := (int(m.valueSize) + 7) &^ 7 // the kernel's
	size := (stride*int(m.maxEntries) + page - 1) &^ (page - 1)
	b, err := unix.Mmap(int(t), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s into memory: %w", m.name, err)
	}
	return b, nil
}

func (m *memory) unmap() error {
	if *m == nil {
		return nil
	}
	b := *m
	*m = nil
	return unix.Munmap(b)
}

// word is the 32-bit word at off, which is a multiple of 4.
func (m memory) word(off int) *uint32 { return (*uint32)(unsafe.Pointer(&m[off])) }

// counter is the 64-bit counter at off, which is a multiple of 8. A 32-bit CPU
// reads and writes it in halves, so what was read counts if it is read twice; a
// writer is between its halves for a moment only.
func (m memory) counter(off int) uint64 {
	if strconv.IntSize == 64 {
		return atomic.LoadUint64((*uint64)(unsafe.Pointer(&m[off])))
	}
	read := func() (n [2]uint32) {
		n[0] = atomic.LoadUint32(m.word(off))
		n[1] = atomic.LoadUint32(m.word(off + 4))
		return n
	}
	n := read()
	for again := read(); again != n; again = read() {
		n = again
	}
	return *(*uint64)(unsafe.Pointer(&n))
}

// Offsets in struct queue (shared.h).
const (
	queueSize  = 128
	queueGiven = 0
	queueRing  = 12
	queueTaken = 64
)

// Offsets in struct control (shared.h).
const (
	controlTick  = 0
	controlHalf4 = 12
	controlHalf6 = 16
	controlPorts = 20
	controlPort  = 4 + portSize // of each port: its ifindex and struct port
)

// Queue is what the program and the worker of a receive queue tell each other.
type Queue struct{ given, taken *uint32 }

// Queue returns the queue of a port. It is valid until Close.
func (s *Set) Queue(slot uint16, queue int) (*Queue, error) {
	i, err := queueIndex(slot, queue)
	if err != nil {
		return nil, fmt.Errorf("slot %d, receive queue %d: %w", slot, queue, err)
	}
	at := int(i) * queueSize
	return &Queue{given: s.queues.word(at + queueGiven), taken: s.queues.word(at + queueTaken)}, nil
}

// Answer tells the program that the worker is alive and has looked at its ring.
// Without an answer for 200 ms to a packet that it gave, the program passes the
// queue's packets up until the next answer. Before that, what it would give above
// the ring's size since the last answer it drops.
//
// The worker calls it each time after it has looked at the ring, whether it
// found something or not. A packet that the socket dropped (fill ring empty,
// receive ring full, frame too long) wakes nobody up and would stay unanswered:
// so a worker doesn't sleep for ever, but looks again once a second, as long as
// Behind.
func (q *Queue) Answer() { atomic.StoreUint32(q.taken, atomic.LoadUint32(q.given)) }

// Behind says whether the program gave something that wasn't answered.
func (q *Queue) Behind() bool { return atomic.LoadUint32(q.taken) != atomic.LoadUint32(q.given) }

// Tick tells the program that the daemon is alive. Without it for 5 s the engine
// xdp passes everything up. Once a second while there are flows is enough.
func (s *Set) Tick() { atomic.AddUint32(s.control.word(controlTick), 1) }
