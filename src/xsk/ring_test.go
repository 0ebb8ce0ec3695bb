// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The layout of a ring in memory, as the kernel would report it.
var layout = unix.XDPRingOffset{Producer: 0, Consumer: 64, Flags: 128, Desc: 192}

// fakeRing is a ring in ordinary memory: our two ends on it, joined back to
// back, each playing the kernel for the other.
func fakeRing[T slot](size, start uint32) (*producer[T], *consumer[T]) {
	words := make([]uint64, (layout.Desc+uint64(size)*16)/8) // aligned as a page is
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	*index(mem, layout.Producer) = start
	*index(mem, layout.Consumer) = start
	p, c := newProducer[T](mem, layout, size), newConsumer[T](mem, layout, size)
	return &p, &c
}

// checkAgainstModel runs operations (pairs of kind and count) against a plain
// slice that has the obvious behaviour.
func checkAgainstModel(t *testing.T, size, start uint32, ops []byte) {
	t.Helper()
	p, c := fakeRing[uint64](size, start)
	var model []uint64
	next := uint64(1)
	buf := make([]uint64, 255)
	for i := 0; i+1 < len(ops); i += 2 {
		items := buf[:ops[i+1]]
		switch ops[i] % 3 {
		case 0:
			for j := range items {
				items[j] = next + uint64(j)
			}
			n := p.push(items)
			if want := min(len(items), int(size)-len(model)); n != want {
				t.Fatalf("op %d: pushed %d of %d into %d/%d, want %d", i/2, n, len(items), len(model), size, want)
			}
			model = append(model, items[:n]...)
			next += uint64(n)
		case 1:
			n := c.pop(items)
			if want := min(len(items), len(model)); n != want || !slices.Equal(items[:n], model[:n]) {
				t.Fatalf("op %d: popped %v, want %d of %v", i/2, items[:n], want, model)
			}
			model = model[n:]
		case 2:
			if n := p.pending(); n != len(model) {
				t.Fatalf("op %d: %d pending, want %d", i/2, n, len(model))
			}
		}
	}
}

func FuzzRing(f *testing.F) {
	f.Add(uint8(0), uint32(0), []byte{0, 1, 0, 1, 1, 1, 1, 1})                      // one slot, full, empty
	f.Add(uint8(3), uint32(math.MaxUint32-3), []byte{0, 9, 2, 0, 1, 5, 0, 5, 1, 9}) // indexes wrap
	f.Add(uint8(8), uint32(math.MaxUint32), []byte{1, 0, 0, 0, 0, 255, 0, 255, 1, 255})
	f.Fuzz(func(t *testing.T, log uint8, start uint32, ops []byte) {
		checkAgainstModel(t, 1<<(log%10), start, ops)
	})
}

func TestRingRandomWalk(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		ops := make([]byte, 400)
		for i := range ops {
			ops[i] = byte(rnd.Uint32())
		}
		start := math.MaxUint32 - rnd.Uint32N(300) // wraps in most walks
		checkAgainstModel(t, 1<<rnd.Uint32N(9), start, ops)
	}
}

// Two goroutines, so that the race detector and weakly ordered CPUs have a say.
func TestRingAcrossThreads(t *testing.T) {
	p, c := fakeRing[unix.XDPDesc](64, math.MaxUint32-1000)
	const total = 200_000
	go func() {
		batch := make([]unix.XDPDesc, 0, 32)
		for sent := 0; sent < total; {
			batch = batch[:min(cap(batch), total-sent)]
			for i := range batch {
				v := uint64(sent + i)
				batch[i] = unix.XDPDesc{Addr: v, Len: uint32(v), Options: ^uint32(v)}
			}
			if n := p.push(batch); n > 0 {
				sent += n
			} else {
				runtime.Gosched()
			}
		}
	}()
	got := make([]unix.XDPDesc, 48)
	for want := uint64(0); want < total; {
		n := c.pop(got)
		if n == 0 {
			runtime.Gosched()
		}
		for _, d := range got[:n] {
			if d != (unix.XDPDesc{Addr: want, Len: uint32(want), Options: ^uint32(want)}) {
				t.Fatalf("descriptor %d arrived as %+v", want, d)
			}
			want++
		}
	}
}

func TestNeedWakeup(t *testing.T) {
	p, _ := fakeRing[uint64](4, 0)
	for _, flags := range []uint32{0, unix.XDP_RING_NEED_WAKEUP, 2} {
		atomic.StoreUint32(p.flags, flags)
		if got, want := p.needWakeup(), flags == unix.XDP_RING_NEED_WAKEUP; got != want {
			t.Errorf("flags %d: needWakeup %v, want %v", flags, got, want)
		}
	}
}

// The kernel's struct xdp_desc: address, length, options, without padding, on
// every architecture.
func TestDescLayout(t *testing.T) {
	d := unix.XDPDesc{Addr: 0x0102030405060708, Len: 0x090a0b0c, Options: 0x0d0e0f10}
	var want [16]byte
	binary.NativeEndian.PutUint64(want[:], d.Addr)
	binary.NativeEndian.PutUint32(want[8:], d.Len)
	binary.NativeEndian.PutUint32(want[12:], d.Options)
	if unsafe.Sizeof(d) != 16 || *(*[16]byte)(unsafe.Pointer(&d)) != want {
		t.Errorf("descriptor of %d bytes: % x, want % x", unsafe.Sizeof(d), *(*[16]byte)(unsafe.Pointer(&d)), want)
	}
}
