// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"math/rand/v2"
	"testing"
	"time"

	"fastpath/src/packet"
)

// flowCount is what a flow has counted; ok: the Set lists it.
func flowCount(t *testing.T, s *Set, key packet.Key) (packets, bytes uint64, ok bool) {
	t.Helper()
	must(t, s.FlowCounters(func(k []byte, p, b uint64) {
		if packet.LoadKey(k) == key {
			packets, bytes, ok = p, b, true
		}
	}))
	return packets, bytes, ok
}

func TestFlowCounters(t *testing.T) {
	for _, e := range []Engine{EngineXDP, EngineAFXDP} {
		r, frame := oneFlow(t, e)
		f := r.flows[0]
		a, _ := refParse(frame, r.in, tunnels)
		size := uint64(len(a.ip) + len(a.l4))
		want := func(packets uint64, when string) {
			t.Helper()
			p, b, ok := flowCount(t, r.set, f.key)
			if !ok || p != packets || b != packets*size {
				t.Errorf("%s: %d packets, %d bytes, listed %v; want %d of %d bytes", when, p, b, ok, packets, size)
			}
		}
		send := func() {
			r.set.Tick()
			q, err := r.set.Queue(0, 0)
			must(t, err)
			q.Answer()
			run(t, r.set, frame)
		}
		put := func() {
			must(t, r.set.PutFlow(&f.key, Flow{f.ref.Index, f.ref.Gen, e, &f.action}))
		}
		want(0, "new")
		send()
		send()
		want(2, "two packets")
		put()
		send()
		want(3, "the action exchanged")
		if n, err := r.set.Bytes(0); err != nil || n != 3*size {
			t.Errorf("the port counted %d bytes, %v; want %d", n, err, 3*size)
		}
		for range 2*spareSlots + 2 { // so that its counter is used again
			must(t, r.set.DeleteFlow(&f.key))
			if _, _, ok := flowCount(t, r.set, f.key); ok {
				t.Fatal("a deleted flow is listed")
			}
			put()
			want(0, "a new flow")
			send()
			want(1, "its first packet")
		}
	}
}

// All counters of a full table, both directions of 64k flows.
func TestFlowCountersOfMany(t *testing.T) {
	const n = 1 << 17
	s := loadSet(t, n)
	g := generator{rand.New(rand.NewPCG(7, 8))}
	action := packet.Action{}
	start := time.Now()
	for i := range n {
		key, err := packet.NewKey(packet.Wire{}, packet.Tuple{Proto: packet.UDP, Src: g.addrPort(i%2 == 0), Dst: g.addrPort(i%2 == 0)})
		must(t, err)
		must(t, s.PutFlow(&key, Flow{Engine: EngineXDP, Action: &action}))
	}
	put, seen := time.Since(start), 0
	start = time.Now()
	must(t, s.FlowCounters(func([]byte, uint64, uint64) { seen++ }))
	if seen != n {
		t.Errorf("%d of %d flows are listed", seen, n)
	}
	t.Logf("%d flows: put in %v, counters read in %v", n, put, time.Since(start))
}

// A worker that is a whole ring behind: what it can't get is dropped at once.
func TestShed(t *testing.T) {
	r, frame := oneFlow(t, EngineAFXDP)
	q, err := r.set.Queue(0, 0)
	must(t, err)
	const ring = 64 // newRig's
	for range ring {
		r.want(frame, packet.Forward, "room in the ring")
	}
	r.want(frame, packet.Shed, "no room in the ring")
	if verdict, _, _ := run(t, r.set, frame); verdict != xdpDrop {
		t.Errorf("verdict %d", verdict)
	}
	*q.taken = *q.given - ring + 1
	r.want(frame, packet.Forward, "one was taken")
	r.want(frame, packet.Shed, "full again")
	time.Sleep(queueLimit + 100*time.Millisecond)
	r.want(frame, packet.Stale, "the worker hangs")
	q.Answer()
	r.want(frame, packet.Forward, "it answers")
}
