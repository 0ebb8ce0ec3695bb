// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// place is where a frame is. The tests move every frame through the fake
// kernel, which accepts it only from the place where it must be.
type place uint8

const (
	user       place = iota // pool, or in a worker's hands
	filled                  // fill ring
	received                // rx ring
	queued                  // tx ring
	flying                  // taken by the device, not completed
	completing              // completion ring
)

// fault is what a device does wrong.
type fault uint8

const (
	fine  fault = iota
	again       // sends nothing: EAGAIN
	down        // ENETDOWN
	stuck       // takes packets, but never completes them
	lossy       // drops each packet: EBUSY, completed all the same
	faults
)

const frameSize = 2048

// kernel owns the UMEM and what is in the rings.
type kernel struct {
	t     testing.TB
	mu    sync.Mutex
	umem  []byte
	where []place
}

func newKernel(t testing.TB, frames int) *kernel {
	return &kernel{t: t, umem: make([]byte, frames*frameSize), where: make([]place, frames)}
}

// move checks that the frame of addr is at from and puts it to to.
func (k *kernel) move(addr uint64, from, to place) {
	f := addr / frameSize
	if f >= uint64(len(k.where)) || k.where[f] != from {
		k.t.Errorf("frame %d: moved from %d to %d, but it is at %d", f, from, to, k.where[min(f, uint64(len(k.where)-1))])
		panic("frame accounting is broken")
	}
	k.where[f] = to
}

// count is the number of frames at a place.
func (k *kernel) count(at place) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.where {
		if p == at {
			n++
		}
	}
	return n
}

// queue is a fake AF_XDP socket, with the limits of the real one.
type queue struct {
	k         *kernel
	size      int // slots of each ring
	fd        int // eventfd: readable while rx isn't empty
	event     [8]byte
	fault     fault
	batch     int // packets per kick
	kicks     int
	fill      []uint64
	rx, tx    []unix.XDPDesc
	inDevice  []uint64
	completed []uint64
	sent      func(packet []byte) // sees each packet that leaves
	lost      *uint64             // counts those that a lossy device drops
}

func (k *kernel) queue(size int) *queue {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { unix.Close(fd) })
	return &queue{k: k, size: size, fd: fd, batch: 32, sent: func([]byte) {}, lost: new(uint64),
		fill: make([]uint64, 0, size), rx: make([]unix.XDPDesc, 0, size), tx: make([]unix.XDPDesc, 0, size),
		inDevice: make([]uint64, 0, size), completed: make([]uint64, 0, size)}
}

func (q *queue) FD() int { return q.fd }
func (q *queue) WakeRx() {}

func (q *queue) Fill(addrs []uint64) int {
	q.k.mu.Lock()
	defer q.k.mu.Unlock()
	n := min(len(addrs), q.size-len(q.fill))
	for _, a := range addrs[:n] {
		q.k.move(a, user, filled)
	}
	q.fill = append(q.fill, addrs[:n]...)
	return n
}

// deliver receives one packet with meta in front of it, as the program leaves
// it; false: there was no frame, or no room in the rx ring.
func (q *queue) deliver(meta, packet []byte) bool {
	q.k.mu.Lock()
	defer q.k.mu.Unlock()
	if len(q.fill) == 0 || len(q.rx) == q.size {
		return false
	}
	addr := q.fill[0] + unix.XDP_PACKET_HEADROOM
	q.fill = append(q.fill[:0], q.fill[1:]...)
	q.k.move(addr, filled, received)
	copy(q.k.umem[addr-uint64(len(meta)):], meta)
	copy(q.k.umem[addr:], packet)
	q.rx = append(q.rx, unix.XDPDesc{Addr: addr, Len: uint32(len(packet))})
	if len(q.rx) == 1 {
		binary.NativeEndian.PutUint64(q.event[:], 1)
		unix.Write(q.fd, q.event[:])
	}
	return true
}

func (q *queue) Receive(descs []unix.XDPDesc) int {
	q.k.mu.Lock()
	defer q.k.mu.Unlock()
	n := copy(descs, q.rx)
	for _, d := range q.rx[:n] {
		q.k.move(d.Addr, received, user)
	}
	q.rx = append(q.rx[:0], q.rx[n:]...)
	if n > 0 && len(q.rx) == 0 {
		unix.Read(q.fd, q.event[:])
	}
	return n
}

func (q *queue) Transmit(descs []unix.XDPDesc) int {
	q.k.mu.Lock()
	defer q.k.mu.Unlock()
	n := min(len(descs), q.size-len(q.tx))
	for _, d := range descs[:n] {
		q.k.move(d.Addr, user, queued)
	}
	q.tx = append(q.tx, descs[:n]...)
	return n
}

func (q *queue) Unsent() int {
	q.k.mu.Lock()
	defer q.k.mu.Unlock()
	return len(q.tx)
}

// Kick does what the kernel's copy mode does: a limited number per call, each
// with its slot in the completion ring reserved.
func (q *queue) Kick() error {
	q.k.mu.Lock()
	defer q.k.mu.Unlock()
	q.kicks++
	switch q.fault {
	case again:
		return unix.EAGAIN
	case down:
		return unix.ENETDOWN
	}
	n := min(q.batch, len(q.tx), q.size-len(q.inDevice)-len(q.completed))
	for _, d := range q.tx[:n] {
		q.k.move(d.Addr, queued, flying)
		if q.fault == lossy {
			*q.lost++
		} else {
			q.sent(q.k.umem[d.Addr : d.Addr+uint64(d.Len)])
		}
		q.inDevice = append(q.inDevice, d.Addr)
	}
	q.tx = append(q.tx[:0], q.tx[n:]...)
	if q.fault != stuck {
		q.land()
	}
	switch {
	case q.fault == lossy && n > 0:
		return unix.EBUSY
	case len(q.tx) > 0:
		return unix.EAGAIN
	}
	return nil
}

// land completes what the device has taken.
func (q *queue) land() {
	for _, a := range q.inDevice {
		q.k.move(a, flying, completing)
	}
	q.completed = append(q.completed, q.inDevice...)
	q.inDevice = q.inDevice[:0]
}

func (q *queue) Complete(addrs []uint64) int {
	q.k.mu.Lock()
	defer q.k.mu.Unlock()
	n := copy(addrs, q.completed)
	for _, a := range addrs[:n] {
		q.k.move(a, completing, user)
	}
	q.completed = append(q.completed[:0], q.completed[n:]...)
	return n
}

// set changes the fault and, when the device recovers, completes what was stuck.
func (q *queue) set(f fault) {
	q.k.mu.Lock()
	defer q.k.mu.Unlock()
	q.fault = f
	if f != stuck {
		q.land()
	}
}

// shake sets a random fault, or none; half of the time devices are fine.
func (q *queue) shake(rnd *rand.Rand) {
	f := fine
	if rnd.IntN(2) == 0 {
		f = fault(rnd.IntN(int(faults)))
	}
	q.set(f)
	q.k.mu.Lock()
	defer q.k.mu.Unlock()
	q.batch = 1 + rnd.IntN(64)
}
