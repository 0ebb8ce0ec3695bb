// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// book is an index and the keys that its flows have.
type book struct {
	index
	keys [][]byte // by flow
}

func newBook(t *testing.T, buckets uint32) *book {
	secret, err := newSecret()
	must(t, err)
	return &book{index: index{buckets: make(memory, buckets*bucketSize), mask: buckets - 1, secret: secret}}
}

func (b *book) find(key []byte) (place, bool) {
	return b.index.find(key, func(flow uint32) bool { return bytes.Equal(b.keys[flow], key) })
}

// add says whether there was room.
func (b *book) add(key []byte) bool {
	p, ok := b.find(key)
	if ok {
		b.put(p, uint32(len(b.keys)))
		b.keys = append(b.keys, key)
	}
	return ok
}

func bookKey(n uint32) []byte {
	key := make([]byte, keySize)
	binary.NativeEndian.PutUint32(key, n)
	key[keyFamily] = 4 + 2*byte(n%2)
	return key
}

// A full bucket has no room; what was removed makes some.
func TestIndexFull(t *testing.T) {
	b := newBook(t, 1)
	for n := range uint32(ways) {
		if !b.add(bookKey(n)) {
			t.Fatalf("no room for key %d of %d", n, ways)
		}
	}
	if b.add(bookKey(ways)) {
		t.Error("room for one too many")
	}
	p, ok := b.find(bookKey(3))
	if !ok || !p.had || p.flow != 3 {
		t.Errorf("found %+v, %v", p, ok)
	}
	b.remove(p)
	if p, ok := b.find(bookKey(3)); !ok || p.had {
		t.Errorf("removed, but found %+v, %v", p, ok)
	}
	if !b.add(bookKey(ways)) {
		t.Error("no room where one was removed")
	}
	seen := map[uint32]bool{}
	b.all(func(flow uint32) { seen[flow] = true })
	if len(seen) != ways || seen[3] || !seen[ways] {
		t.Errorf("all are %v", seen)
	}
}

// A key whose tag another flow has in a bucket of both can't be put.
func TestIndexClash(t *testing.T) {
	b := newBook(t, 1)
	b.add(bookKey(1))
	_, tag := b.at(b.hash(bookKey(2)))
	p, _ := b.find(bookKey(1))
	*b.buckets.word(int(p.way)) = tag
	if b.add(bookKey(2)) {
		t.Error("two flows with one tag in a bucket")
	}
}

// As many flows as the index is made for find room, and are found: keys that
// differ in a few bits, as those of one host do, and random ones.
func TestIndexRoom(t *testing.T) {
	const n = 1 << 16
	r := rand.New(rand.NewPCG(1, 2))
	for name, key := range map[string]func(uint32) []byte{
		"in a row": bookKey,
		"random": func(n uint32) []byte {
			k := bookKey(n)
			for i := 24; i < keySize; i++ {
				k[i] = byte(r.Uint32())
			}
			return k
		},
	} {
		b, refused := newBook(t, bucketCount(n)), 0
		for i := range uint32(n) {
			if !b.add(key(i)) {
				refused++
			}
		}
		if refused > 2 { // by a tag's clash
			t.Errorf("%s: no room for %d of %d flows", name, refused, n)
		}
		for i, k := range b.keys {
			if p, ok := b.find(k); !ok || p.flow != uint32(i) {
				t.Fatalf("%s: flow %d is found as %+v", name, i, p)
			}
		}
	}
}
