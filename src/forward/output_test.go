// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"testing"

	"golang.org/x/sys/unix"
)

// take makes a bulk of n packets of 60 bytes out of the pool's frames.
func take(t *testing.T, p *Pool, n int) []unix.XDPDesc {
	t.Helper()
	addrs := make([]uint64, n)
	if got := p.Take(addrs); got != n {
		t.Fatalf("the pool gave %d of %d frames", got, n)
	}
	descs := make([]unix.XDPDesc, n)
	for i, a := range addrs {
		descs[i] = unix.XDPDesc{Addr: a + 256, Len: 60}
	}
	return descs
}

func TestOutput(t *testing.T) {
	const frames, ring = 256, 64
	for _, c := range []struct {
		name  string
		fault fault
		batch int
		bulks []int
		want  OutputCounters // Kicks: at most
		held  int
	}{
		{"one kick for a bulk", fine, 32, []int{32}, OutputCounters{Queued: 32, Kicks: 1}, 0},
		{"kicked again at EAGAIN", fine, 32, []int{64}, OutputCounters{Queued: 64, Kicks: 2}, 0},
		{"bulk larger than the ring", fine, 32, []int{100}, OutputCounters{Queued: 100, Kicks: 4}, 0},
		{"no progress: no more kicks", again, 32, []int{20}, OutputCounters{Queued: 20, Kicks: 1}, 20},
		{"full ring drops", again, 32, []int{60, 10, 5}, OutputCounters{Queued: 64, Full: 11, Kicks: 3}, 64},
		{"link down: queued once, then dropped", down, 32, []int{10, 10, 10}, OutputCounters{Queued: 10, Down: 20, Kicks: 3}, 10},
		{"never completes: bounded", stuck, 32, []int{50, 50, 50}, OutputCounters{Queued: 64, Full: 86, Kicks: 5}, 64},
		{"device drops each", lossy, 8, []int{40}, OutputCounters{Queued: 40, Kicks: 5}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKernel(t, frames)
			p, q := NewPool(k.umem, frameSize), k.queue(ring)
			q.fault, q.batch = c.fault, c.batch
			o := NewOutput(q, p, ring)
			for _, n := range c.bulks {
				o.bulk = append(o.bulk, take(t, p, n)...)
				o.send()
			}
			got := o.Counters()
			if got.Kicks > c.want.Kicks {
				t.Errorf("%d kicks, want at most %d", got.Kicks, c.want.Kicks)
			}
			got.Kicks, c.want.Kicks = 0, 0
			if got != c.want || o.held != c.held || p.Free()+o.held != frames {
				t.Errorf("counters %+v, held %d, free %d; want %+v and %d held", got, o.held, p.Free(), c.want, c.held)
			}
			if o.backlog != (q.Unsent() > 0) {
				t.Errorf("backlog %v with %d unsent", o.backlog, q.Unsent())
			}
			q.set(fine)
			for range 8 {
				o.retry()
			}
			o.reap()
			if p.Free() != frames || o.held != 0 || o.down {
				t.Errorf("after recovery %d of %d frames are free, %d held, down %v", p.Free(), frames, o.held, o.down)
			}
		})
	}
}

// A device sent nothing until the tx ring was full of what it had not looked at.
// When it can again, the next bulk finds that out: no worker has to be idle first.
func TestFullRingRecovers(t *testing.T) {
	const frames, ring = 256, 64
	k := newKernel(t, frames)
	p := NewPool(k.umem, frameSize)
	q := k.queue(ring)
	o := NewOutput(q, p, ring)
	q.fault = again
	for range 3 {
		o.bulk = append(o.bulk, take(t, p, 32)...)
		o.send()
	}
	q.set(fine)
	o.bulk = append(o.bulk, take(t, p, 10)...)
	o.send()
	if c := o.Counters(); c.Queued != 74 || c.Full != 32 || o.held != 0 || p.Free() != frames {
		t.Errorf("counters %+v, %d held, %d of %d free", c, o.held, p.Free(), frames)
	}
}

// A frame that comes back carries the packet's address; the pool wants the frame's.
func TestPoolAddresses(t *testing.T) {
	p := NewPool(make([]byte, 4*frameSize), frameSize)
	all := make([]uint64, 8)
	if n := p.Take(all); n != 4 || p.Free() != 0 {
		t.Fatalf("took %d of 4, %d left", n, p.Free())
	}
	p.Give([]uint64{3*frameSize + 2047, 0*frameSize + 1})
	p.giveDescs([]unix.XDPDesc{{Addr: 2*frameSize + 256}, {Addr: 1 * frameSize}})
	seen := map[uint64]bool{}
	for _, a := range all[:p.Take(all)] {
		seen[a] = true
	}
	for i := range uint64(4) {
		if !seen[i*frameSize] {
			t.Errorf("frame %d did not come back: %v", i, seen)
		}
	}
}
