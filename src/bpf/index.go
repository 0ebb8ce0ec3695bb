// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Of struct key, struct bucket and struct flow (shared.h).
const (
	keyWords   = keySize / 4
	keyFamily  = 21
	ways       = 8
	bucketSize = ways * 8
)

// index finds flows by key: the writer's side of find in fastpath.c. A flow is
// in one of two buckets. The second one is for what would crowd the first: the
// buckets have four times the room that is needed, so that both are full about
// never.
type index struct {
	buckets memory
	mask    uint32
	secret  [keyWords]uint32
}

// bucketCount is a power of 2: at most a quarter of the ways are in use.
func bucketCount(maxFlows uint32) uint32 {
	return 1 << bits.Len32((4*maxFlows-1)/ways)
}

func newSecret() (secret [keyWords]uint32, err error) {
	var b [4 * keyWords]byte
	for {
		_, err = unix.Getrandom(b[:], 0) // up to 256 bytes come whole
		if err != unix.EINTR {           // while the kernel still waits for entropy
			break
		}
	}
	if err != nil {
		return secret, fmt.Errorf("get a secret: %w", err)
	}
	for i := range secret {
		secret[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	return secret, nil
}

// hash is hash of fastpath.c.
func (x *index) hash(key []byte) uint64 {
	nh := func(i, j int) uint64 {
		return uint64(binary.NativeEndian.Uint32(key[4*i:])+x.secret[i]) *
			uint64(binary.NativeEndian.Uint32(key[4*j:])+x.secret[j])
	}
	h := nh(0, 1) + nh(2, 3) + nh(4, 5) + nh(6, 10)
	if key[keyFamily] == 6 {
		h += nh(7, 11) + nh(8, 12) + nh(9, 13)
	}
	return (h ^ h>>32) * 0x9e3779b97f4a7c15
}

// at returns the numbers of the two buckets of a hash, which may be the same,
// and its tag, which is not 0.
func (x *index) at(h uint64) (buckets [2]uint32, tag uint32) {
	return [2]uint32{uint32(h>>40) & x.mask, uint32(h>>16) & x.mask}, uint32(h) | 1
}

// way is the offset of an entry: its tag, and 4 further on its flow.
type way int

// place is where a key is or should be.
type place struct {
	way  way
	tag  uint32
	flow uint32 // of the entry
	had  bool   // there is an entry
}

// find looks for key. same says whether a flow has it. Not ok: there is no room,
// or a flow with another key has the same tag and the program couldn't tell them
// apart (that is one in 2^31).
func (x *index) find(key []byte, same func(flow uint32) bool) (p place, ok bool) {
	buckets, tag := x.at(x.hash(key))
	var used [2]int
	free := [2]way{-1, -1}
	for i, b := range buckets {
		for n := range ways {
			w := way(int(b)*bucketSize + 8*n)
			flow := *x.buckets.word(int(w) + 4)
			switch {
			case flow == 0 && free[i] < 0:
				free[i] = w
			case flow != 0 && *x.buckets.word(int(w)) == tag:
				return place{w, tag, flow - 1, true}, same(flow - 1)
			case flow != 0:
				used[i]++
			}
		}
	}
	w := free[0]
	if crowded := used[0] > ways-3; crowded && used[1] < used[0] {
		w = free[1]
	}
	return place{way: w, tag: tag}, w >= 0
}

// put publishes a flow.
func (x *index) put(p place, flow uint32) {
	atomic.StoreUint32(x.buckets.word(int(p.way)), p.tag)
	atomic.StoreUint32(x.buckets.word(int(p.way)+4), flow+1)
}

func (x *index) remove(p place) {
	atomic.StoreUint32(x.buckets.word(int(p.way)+4), 0)
	atomic.StoreUint32(x.buckets.word(int(p.way)), 0)
}

// all calls f with every flow.
func (x *index) all(f func(flow uint32)) {
	for at := 4; at < int(x.mask+1)*bucketSize; at += 8 {
		if flow := *x.buckets.word(at); flow != 0 {
			f(flow - 1)
		}
	}
}
