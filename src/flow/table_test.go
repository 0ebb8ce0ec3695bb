// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"fastpath/src/packet"
)

func key(i uint32) (k packet.Key) {
	binary.NativeEndian.PutUint32(k.Src[:], i)
	return k
}

// action is one whose two ends both carry i, so that half of it is noticed.
func action(i uint32) (a packet.Action) {
	a.Out, a.MTU = uint16(i), uint16(i>>16)
	binary.NativeEndian.PutUint32(a.Dst[12:], i)
	return a
}

func number(a *packet.Action) (i uint32, whole bool) {
	i = uint32(a.Out) | uint32(a.MTU)<<16
	return i, i == binary.NativeEndian.Uint32(a.Dst[12:])
}

func TestTable(t *testing.T) {
	table := New(2)
	put := func(i, a uint32) packet.Ref {
		t.Helper()
		r, err := table.Put(key(i), action(a))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := func(r packet.Ref, a uint32) {
		t.Helper()
		if got := table.At(r); got == nil || *got != action(a) {
			t.Errorf("%+v is %+v, want action %d", r, got, a)
		}
	}
	one, two := put(1, 10), put(2, 20)
	want(one, 10)
	want(two, 20)
	if _, err := table.Put(key(3), action(30)); !errors.Is(err, ErrFull) {
		t.Errorf("third of two: %v", err)
	}
	if again := put(1, 11); again != one {
		t.Errorf("another action, another Ref: %+v, was %+v", again, one)
	}
	want(one, 11)
	if !table.Delete(key(1)) || table.Delete(key(1)) {
		t.Error("deleted once should be deleted once")
	}
	if table.At(one) != nil {
		t.Error("a deleted flow is still there")
	}
	three := put(3, 30)
	if three.Index != one.Index || table.At(one) != nil {
		t.Errorf("the old Ref %+v reaches the new flow %+v", one, three)
	}
	want(three, 30)
	if r, ok := table.Find(key(3)); !ok || r != three {
		t.Errorf("found %+v, %v", r, ok)
	}
	if _, ok := table.Find(key(1)); ok || table.Len() != 2 {
		t.Errorf("%d flows, a deleted one found: %v", table.Len(), ok)
	}
	for _, r := range []packet.Ref{{}, {Index: 2, Gen: 1}, {Index: ^uint32(0), Gen: 3}} {
		if table.At(r) != nil {
			t.Errorf("%+v is a flow", r)
		}
	}
}

func TestGenerationWraps(t *testing.T) {
	table := New(1)
	table.gen = ^uint32(0)
	if r, err := table.Put(key(1), action(1)); err != nil || r.Gen == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A long random walk against a plain map.
func TestRandomWalk(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	g := rand.New(rand.NewPCG(seed, 0))
	const size = 50
	table := New(size)
	flows := map[uint32]uint32{}
	refs := map[packet.Ref]uint32{} // every Ref there ever was, and whose
	for i := range uint32(20000) {
		k := g.Uint32N(2 * size)
		if g.IntN(3) == 0 {
			_, had := flows[k]
			if table.Delete(key(k)) != had {
				t.Fatalf("step %d: deleted %d, was there: %v", i, k, had)
			}
			delete(flows, k)
		} else if r, err := table.Put(key(k), action(i)); err == nil {
			if owner, ok := refs[r]; ok && owner != k {
				t.Fatalf("step %d: %+v was given out twice", i, r)
			}
			flows[k], refs[r] = i, k
		} else if len(flows) != size {
			t.Fatalf("step %d: %v with %d flows", i, err, len(flows))
		}
	}
	found := 0
	for r, k := range refs {
		if a := table.At(r); a != nil {
			if found++; *a != action(flows[k]) {
				t.Errorf("flow %d has %+v, want action %d", k, a, flows[k])
			}
		}
	}
	if found != len(flows) || table.Len() != len(flows) {
		t.Errorf("%d flows by Ref, %d by Len, want %d", found, table.Len(), len(flows))
	}
}

// Readers with old and new Refs see whole actions of the Ref's own flow, or
// none. Run it with -race.
func TestConcurrent(t *testing.T) {
	const size, readers = 4, 4
	table := New(size)
	refs := make(chan packet.Ref, 1024) // as in a receive ring: some are old when they are read
	owner := sync.Map{}
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for r := range refs {
				a := table.At(r)
				if a == nil {
					continue
				}
				i, whole := number(a)
				if k, _ := owner.Load(r); !whole || k != i%16 {
					t.Errorf("%+v of flow %v: action %d, whole: %v", r, k, i, whole)
					return
				}
			}
		})
	}
	g := rand.New(rand.NewPCG(1, 1))
	for range 100000 {
		k := g.Uint32N(16)
		if table.Len() == size || g.IntN(4) == 0 {
			table.Delete(key(k))
			continue
		}
		r, err := table.Put(key(k), action(g.Uint32()&^15|k))
		if err != nil {
			t.Error(err)
			break
		}
		owner.Store(r, k)
		refs <- r
	}
	close(refs)
	wg.Wait()
}

func TestNoAllocations(t *testing.T) {
	table := New(1)
	r, err := table.Put(key(1), action(1))
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { table.At(r) }); n != 0 {
		t.Errorf("%v allocations per lookup", n)
	}
}

func BenchmarkAt(b *testing.B) {
	for name, size := range map[string]uint32{"1": 1, "1k": 1000, "60k": 60000} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			table := New(int(size))
			refs := make([]packet.Ref, size)
			for i := range refs {
				refs[i], _ = table.Put(key(uint32(i)), action(uint32(i)))
			}
			rand.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
			i := 0
			for b.Loop() {
				if table.At(refs[i]) == nil {
					b.Fatal("not there")
				}
				if i++; i == len(refs) {
					i = 0
				}
			}
		})
	}
}
