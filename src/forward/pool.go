// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Pool is the free list of a UMEM's frames. The last frame given is the first
// taken: it is the one most likely to be in the cache.
type Pool struct {
	mu   sync.Mutex
	free []uint64 // addresses of first bytes
	mask uint64   // clears an address's offset in its frame
}

// NewPool makes the free list of frames×size bytes; size is a power of two.
func NewPool(frames, size uint32) *Pool {
	p := &Pool{free: make([]uint64, frames), mask: ^uint64(size - 1)}
	for i := range p.free {
		p.free[i] = uint64(i) * uint64(size)
	}
	return p
}

// Take moves up to len(addrs) frames out of the pool and returns their number.
func (p *Pool) Take(addrs []uint64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(addrs), len(p.free))
	rest := len(p.free) - n
	copy(addrs, p.free[rest:])
	p.free = p.free[:rest]
	return n
}

// Give moves frames into the pool; an address may lie anywhere in its frame.
func (p *Pool) Give(addrs []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range addrs {
		p.free = append(p.free, a&p.mask)
	}
}

// giveDescs is Give for packets.
func (p *Pool) giveDescs(descs []unix.XDPDesc) {
	if len(descs) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range descs {
		p.free = append(p.free, d.Addr&p.mask)
	}
}

// Free is the number of frames in the pool.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.free)
}
