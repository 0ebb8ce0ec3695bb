// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// memory is an array map's values, shared with the program.
type memory []byte

func mapMemory(m *ebpf.Map) (memory, error) {
	page := os.Getpagesize()
	stride := (int(m.ValueSize()) + 7) &^ 7 // the kernel's
	size := (stride*int(m.MaxEntries()) + page - 1) &^ (page - 1)
	b, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %v into memory: %w", m, err)
	}
	return b, nil
}

func (m memory) unmap() error {
	if m == nil {
		return nil
	}
	return unix.Munmap(m)
}

// word is the 32-bit word at off, which is a multiple of 4.
func (m memory) word(off int) *uint32 { return (*uint32)(unsafe.Pointer(&m[off])) }

// Offsets in struct queue (shared.h).
const (
	queueSize  = 128
	queueGiven = 0
	queueTaken = 64
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
// queue's packets up until the next answer.
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
func (s *Set) Tick() { atomic.AddUint32(s.tick.word(0), 1) }
