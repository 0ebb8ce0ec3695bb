// SPDX-License-Identifier: Apache-2.0

package forward

import "golang.org/x/sys/unix"

// Pool is a UMEM: its memory and the list of its free frames. The last frame
// given is the first taken: it is the one most likely to be in the cache.
type Pool struct {
	memory []byte
	size   uint64   // of a frame
	free   []uint64 // addresses of first bytes
}

// NewPool makes all of memory free frames of size bytes, a power of two.
func NewPool(memory []byte, size uint32) *Pool {
	p := &Pool{memory: memory, size: uint64(size)}
	p.free = make([]uint64, uint64(len(memory))/p.size)
	for i := range p.free {
		p.free[i] = uint64(i) * p.size
	}
	return p
}

// Take moves up to len(addrs) frames out of the pool and returns their number.
func (p *Pool) Take(addrs []uint64) int {
	n := min(len(addrs), len(p.free))
	rest := len(p.free) - n
	copy(addrs, p.free[rest:])
	p.free = p.free[:rest]
	return n
}

// Give moves frames into the pool; an address may lie anywhere in its frame.
func (p *Pool) Give(addrs []uint64) {
	for _, a := range addrs {
		p.free = append(p.free, a&^(p.size-1))
	}
}

// giveDescs is Give for packets.
func (p *Pool) giveDescs(descs []unix.XDPDesc) {
	for _, d := range descs {
		p.free = append(p.free, d.Addr&^(p.size-1))
	}
}

// Free is the number of frames in the pool.
func (p *Pool) Free() int { return len(p.free) }

// frame is the frame that holds d's packet, and the packet's offset in it.
func (p *Pool) frame(d unix.XDPDesc) (buf []byte, off int) {
	base := d.Addr &^ (p.size - 1)
	return p.memory[base : base+p.size], int(d.Addr - base)
}
