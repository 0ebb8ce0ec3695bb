// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// MaxRanges is how many ranges of a family a drop list may have (shared.h).
const MaxRanges = 1<<17 - 1

// SetDrop makes the program drop what comes in by any port from these sources:
// ranges of addresses in wire order, both ends included, sorted, with a gap
// between any two. It takes 8 bytes for each of IPv4 and 32 for each of IPv6, and
// twice that while a list is exchanged. A packet meets the old list or the new
// one; after an error that is still the old one, at least of a family.
func (s *Set) SetDrop(v4 [][2][4]byte, v6 [][2][16]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	native, big := binary.NativeEndian, binary.BigEndian
	err := s.putRanges(mapDrop4, controlHalf4, len(v4), func(m memory) {
		for i := range v4 {
			native.PutUint32(m[8*i:], big.Uint32(v4[i][0][:]))
			native.PutUint32(m[8*i+4:], big.Uint32(v4[i][1][:]))
		}
	})
	if err != nil {
		return fmt.Errorf("drop list of %d IPv4 ranges: %w", len(v4), err)
	}
	err = s.putRanges(mapDrop6, controlHalf6, len(v6), func(m memory) {
		for i := range v6 {
			for n := range 4 { // halves of the two addresses
				native.PutUint64(m[32*i+8*n:], big.Uint64(v6[i][n/2][n%2*8:]))
			}
		}
	})
	if err != nil {
		return fmt.Errorf("drop list of %d IPv6 ranges: %w", len(v6), err)
	}
	return nil
}

// putRanges exchanges a family's list for one of n entries, which fill writes. A
// search that begins too high only takes longer (see drop.h), one that begins too low
// misses entries: so programs know the higher beginning while the lists are exchanged,
// for which the kernel waits as in wait.
func (s *Set) putRanges(list, half, n int, fill func(memory)) error {
	if n > MaxRanges {
		return fmt.Errorf("there is room for %d", MaxRanges)
	}
	begin, next := s.control.word(half), uint32(1)<<bits.Len(uint(n))>>1
	if n == 0 {
		if err := s.maps[list].remove(word(0)); err != nil {
			return err
		}
		atomic.StoreUint32(begin, 0)
		return nil
	}
	spec := *fastpath.maps[list].inner
	spec.maxEntries = uint32(n)
	t, err := createTable(spec)
	if err != nil {
		return err
	}
	defer unix.Close(int(t))
	ranges, err := mapMemory(t, spec)
	if err != nil {
		return err
	}
	fill(ranges)
	if err := ranges.unmap(); err != nil {
		return err
	}
	before := *begin
	if next > before {
		atomic.StoreUint32(begin, next)
		if err := s.wait(); err != nil {
			return err
		}
	}
	if err := s.maps[list].put(word(0), word(uint32(t))); err != nil {
		atomic.StoreUint32(begin, before)
		return err
	}
	atomic.StoreUint32(begin, next)
	return nil
}
