// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"fastpath/src/packet"
)

// A million packets by two inputs, and all that can go wrong at the outputs
// meanwhile: full rings, EAGAIN, a link that is down, a device that never
// completes, one that drops; and each of them recovers at some time.
func TestAccountingUnderFaults(t *testing.T) {
	const packets = 1_000_000
	r := newRig(t, 4, 2)
	rnd := rand.New(rand.NewPCG(1, 2))
	var lost uint64
	r.lossTo(&lost)
	seen := map[fault]bool{}
	for n, round := 0, 0; n < packets; round++ {
		if round%50 == 0 {
			for _, q := range r.queues {
				q.shake(rnd)
				seen[q.fault] = true
			}
		}
		for range rnd.IntN(2 * burstSize) {
			flow := rnd.IntN(len(r.metas))
			if r.deliver(flow%2, flow) { // a flow comes by one port only
				n++
			}
		}
		if r.worker.burst() == 0 {
			r.worker.tidy()
		}
		for _, q := range r.queues[:2] {
			if len(q.fill)+len(q.rx) < ring {
				t.Fatalf("round %d: an input is down to %d frames", round, len(q.fill)+len(q.rx))
			}
		}
		if round%1000 == 0 {
			r.audit(t)
		}
	}
	for _, q := range r.queues {
		q.set(fine)
	}
	for r.worker.burst() > 0 || r.worker.tidy() {
	}
	for _, o := range r.outputs {
		o.reap() // as the next send would
	}
	r.audit(t)
	r.balance(t, lost)
	checkFaults(t, r, len(seen), lost, packets)
}

func checkFaults(t *testing.T, r *rig, seen int, lost, packets uint64) {
	t.Helper()
	var full, down, in uint64
	for _, o := range r.outputs {
		c := o.Counters()
		full, down = full+c.Full, down+c.Down
		if o.held != 0 {
			t.Errorf("%d frames are still held after recovery", o.held)
		}
	}
	for _, i := range r.inputs {
		in += i.Counters().Packets
	}
	if seen != int(faults) || full == 0 || down == 0 || lost == 0 || in < packets {
		t.Errorf("%d faults, full %d, down %d, lost %d, packets %d: not everything happened", seen, full, down, lost, in)
	}
}

// Packets come by two inputs and faults come and go while the worker runs in its
// own goroutine.
func TestRun(t *testing.T) {
	r := newRig(t, 3, 2)
	var lost uint64
	r.lossTo(&lost)
	go r.worker.Run()
	var feeding sync.WaitGroup
	for port := range r.inputs {
		feeding.Go(func() {
			rnd := rand.New(rand.NewPCG(3, uint64(port)))
			for n := 0; n < 100_000; {
				flow := rnd.IntN(len(r.metas)/2)*2 + port
				if r.deliver(port, flow) {
					n++
				} else {
					time.Sleep(10 * time.Microsecond)
				}
				if n%1000 == 0 {
					r.queues[rnd.IntN(len(r.queues))].shake(rnd)
				}
			}
		})
	}
	feeding.Wait()
	for _, q := range r.queues {
		q.set(fine)
	}
	r.worker.Stop() // what was received is forwarded, not left behind
	if n := r.k.count(received); n != 0 {
		t.Errorf("%d received packets were left behind", n)
	}
	r.audit(t)
	r.balance(t, lost)
}

// An input that always has a burst full doesn't keep the others waiting.
func TestInputsTakeTurns(t *testing.T) {
	r := newRig(t, 3, 3)
	for range len(r.inputs) {
		for port := range r.inputs {
			for r.deliver(port, port) {
			}
		}
		if n := r.worker.burst(); n != burstSize {
			t.Fatalf("a burst of %d packets with three full rings", n)
		}
	}
	for i, in := range r.inputs {
		if n := in.Counters().Packets; n != burstSize {
			t.Errorf("input %d had %d packets of its turn of %d", i, n, burstSize)
		}
	}
	r.audit(t)
}

// A dead output costs the others nothing: no packet, and not the wait for it.
func TestDeadOutputDelaysNobody(t *testing.T) {
	for name, f := range map[string]fault{"down": down, "full": again, "never completes": stuck} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 3, 1)
			r.queues[1].set(f)
			for round := range 100 {
				for i := range burstSize {
					if !r.deliver(0, i%len(r.metas)) {
						t.Fatal("not delivered")
					}
				}
				before := r.queues[1].kicks
				r.worker.burst()
				if n := r.queues[1].kicks - before; n > 5 {
					t.Fatalf("round %d: %d system calls for the dead output", round, n)
				}
				for _, port := range []int{0, 2} {
					if o := r.outputs[port]; o.held != 0 {
						t.Fatalf("round %d: %d packets of port %d have not left", round, o.held, port)
					}
				}
			}
			r.queues[1].set(fine)
			r.worker.tidy()
			r.audit(t)
			r.balance(t, 0)
			if c := r.outputs[1].Counters(); c.Full+c.Down == 0 {
				t.Error("the dead output dropped nothing: was it dead?")
			}
			for _, port := range []int{0, 2} {
				if c := r.outputs[port].Counters(); c.Full+c.Down != 0 {
					t.Errorf("port %d dropped: %+v", port, c)
				}
			}
		})
	}
}

// What a device left behind leaves when it can, even if the worker is busy with
// other outputs and never idle.
func TestBusyWorkerRetries(t *testing.T) {
	r := newRig(t, 2, 1)
	w := r.worker
	burst := func(flow int) {
		for range burstSize {
			if !r.deliver(0, flow) {
				t.Fatal("not delivered")
			}
		}
		w.burst()
	}
	r.queues[1].set(again)
	burst(1)
	if n := r.outputs[1].held; n != burstSize {
		t.Fatalf("output 1 holds %d packets, want all of a burst", n)
	}
	r.queues[1].set(fine)
	burst(0)
	if n := r.outputs[1].held; n != 0 {
		t.Errorf("output 1 still holds %d packets that it could send", n)
	}
	r.queues[1].set(again)
	burst(1)
	r.queues[1].set(fine)
	w.drain()
	if n := r.queues[1].Unsent(); n != 0 {
		t.Errorf("a worker that stops leaves %d packets behind that it could send", n)
	}
	r.audit(t)
	r.balance(t, 0)
}

// A packet that was given but got lost is answered for.
func TestLostPacketIsAnswered(t *testing.T) {
	r := newRig(t, 1, 1)
	w := r.worker
	r.alive[0].given.Add(1)
	if !w.tidy() {
		t.Error("the worker would sleep for long although it owes an answer")
	}
	if w.burst(); w.tidy() {
		t.Error("still something to do after the answer")
	}
}

// An idle worker sleeps, wakes for a packet, and while a link is down looks
// after its backlog ever more rarely.
func TestIdle(t *testing.T) {
	r := newRig(t, 2, 1)
	w := r.worker
	go w.Run()
	defer w.Stop()
	quiet := func(d time.Duration) uint64 {
		before := w.Counters().Polls
		time.Sleep(d)
		return w.Counters().Polls - before
	}
	time.Sleep(50 * time.Millisecond)
	if n := quiet(time.Second); n > 1 {
		t.Errorf("an idle worker woke up %d times in 1 s", n)
	}
	r.deliver(0, 1)
	eventually(t, func() bool { return r.outputs[1].Counters().Queued == 1 && !r.alive[0].Behind() })
	r.queues[1].set(down)
	r.deliver(0, 1)
	eventually(t, func() bool { return r.outputs[1].Counters().Queued == 2 })
	if n := quiet(2 * time.Second); n < 2 || n > 13 {
		t.Errorf("with a dead port the worker woke up %d times in 2 s, want about 11 (1, 2, 4 … ms)", n)
	}
	r.queues[1].set(fine)
	eventually(t, func() bool { return r.queues[1].Unsent() == 0 })
}

func TestStaleAndWrongPackets(t *testing.T) {
	r := newRig(t, 2, 1)
	w := r.worker
	r.outputs[1] = nil // the worker shares the slice
	k, err := packet.NewKey(packet.Wire{}, tuple("10.0.0.1", 1002))
	if err != nil {
		t.Fatal(err)
	}
	if !r.table.Delete(k) {
		t.Fatal("flow 2 was not there")
	}
	long := r.packets[0]
	r.packets[0] = append(make([]byte, 0, 2000), long...)
	tooBig := append([]byte(nil), r.metas[0]...)
	tooBig[12], tooBig[13] = 0x07, 0x07 // 1799 bytes, in either byte order
	r.metas = append(r.metas, tooBig)
	r.packets = append(r.packets, make([]byte, 1792))
	r.sequence = append(r.sequence, 1)
	for _, flow := range []int{0, 1, 2, len(r.metas) - 1, 0} {
		if !r.deliver(0, flow) {
			t.Fatal("not delivered")
		}
	}
	w.burst()
	if !r.deliver(0, 2) {
		t.Fatal("not delivered")
	}
	w.burst()                                           // counts its own only
	r.outputs[1] = NewOutput(r.queues[1], r.pool, ring) // for the audit
	r.audit(t)
	c := r.inputs[0].Counters()
	want := [packet.NumReasons]uint64{packet.NoOutput: 1, packet.NoFlow: 2, packet.TooBig: 1}
	if c.Dropped != want || r.outputs[0].Counters().Queued != 2 {
		t.Errorf("dropped %v, queued %d", c.Dropped, r.outputs[0].Counters().Queued)
	}
}

func TestNoAllocations(t *testing.T) {
	r := newRig(t, 4, 1)
	w := r.worker
	r.queues[2].set(down)
	r.queues[3].set(again)
	i := 0
	if n := testing.AllocsPerRun(2000, func() {
		for range burstSize {
			r.deliver(0, i%len(r.metas))
			i++
		}
		w.burst()
		w.tidy()
	}); n != 0 {
		t.Errorf("%v allocations per burst", n)
	}
	if c := r.outputs[1].Counters(); c.Queued < 2000 {
		t.Errorf("only %d packets went out", c.Queued)
	}
}

func TestNewWorkerChecks(t *testing.T) {
	r := newRig(t, 1, 1)
	in := func(slots, filled int) []*Input {
		return []*Input{NewInput(r.queues[0], &r.alive[0], r.pool, slots, filled)}
	}
	for name, spoil := range map[string]func(*Config){
		"no pool":         func(c *Config) { c.Pool = nil },
		"no inputs":       func(c *Config) { c.Inputs = nil },
		"no flows":        func(c *Config) { c.Flows = nil },
		"ring":            func(c *Config) { c.Inputs = in(0, 0) },
		"too much filled": func(c *Config) { c.Inputs = in(ring, ring+1) },
	} {
		c := r.worker.Config
		spoil(&c)
		if _, err := NewWorker(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within a minute")
		}
	}
}
