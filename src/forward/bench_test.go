// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"testing"

	"golang.org/x/sys/unix"
)

// nullQueue costs next to nothing: what was filled is received, what is
// transmitted is complete. The packets stay in the frames.
type nullQueue struct {
	filled, sent []uint64
	length       uint32
}

func (q *nullQueue) FD() int     { return -1 }
func (q *nullQueue) WakeRx()     {}
func (q *nullQueue) Unsent() int { return 0 }
func (q *nullQueue) Kick() error { return nil }

func (q *nullQueue) Fill(addrs []uint64) int {
	q.filled = append(q.filled, addrs...)
	return len(addrs)
}

func (q *nullQueue) Receive(descs []unix.XDPDesc) int {
	n := min(len(descs), len(q.filled))
	rest := len(q.filled) - n
	for i, a := range q.filled[rest:] {
		descs[i] = unix.XDPDesc{Addr: a + unix.XDP_PACKET_HEADROOM, Len: q.length}
	}
	q.filled = q.filled[:rest]
	return n
}

func (q *nullQueue) Transmit(descs []unix.XDPDesc) int {
	for _, d := range descs {
		q.sent = append(q.sent, d.Addr)
	}
	return len(descs)
}

func (q *nullQueue) Complete(addrs []uint64) int {
	n := copy(addrs, q.sent)
	q.sent = append(q.sent[:0], q.sent[n:]...)
	return n
}

// The worker's own share of a packet's cost: bursts of 64, NAT, no kernel.
func BenchmarkWorker(b *testing.B) {
	const burst = 64
	for _, c := range []struct {
		name  string
		ports int
	}{{"1 output", 1}, {"3 outputs", 3}} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b, c.ports, 1)
			for i := range r.outputs {
				r.outputs[i] = NewOutput(&nullQueue{sent: make([]uint64, 0, ring)}, r.pool, ring)
			}
			in := &nullQueue{filled: make([]uint64, 0, ring), length: packetLen}
			w := r.worker
			w.Inputs = []*Input{NewInput(in, &r.alive[0], r.pool, burst, 0)}
			for f := range r.frames { // a packet in every frame
				at := f*frameSize + unix.XDP_PACKET_HEADROOM
				copy(r.k.umem[at-len(r.metas[0]):], r.metas[f%len(r.metas)])
				copy(r.k.umem[at:], r.packets[f%len(r.packets)])
			}
			w.refill()
			packets := 0
			for b.Loop() {
				packets += w.burst()
			}
			if c := w.Inputs[0].Counters(); c.Dropped != (InputCounters{}).Dropped || packets != b.N*burst {
				b.Fatalf("%d packets in %d bursts, dropped %v", packets, b.N, c.Dropped)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
		})
	}
}
