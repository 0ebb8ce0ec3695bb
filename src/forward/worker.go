// SPDX-License-Identifier: Apache-2.0

// Package forward moves packets between AF_XDP sockets. A worker serves some
// receive queues of all ports, and sends by a queue of its own of each port.
//
// The way of a burst (one iteration of Run):
//
//  1. receive  up to 256 descriptors from the rx rings, each input in its turn
//  2. route    for all: the flow's Ref and the layout from the metadata in front
//     of the frame; for all: Ref → Action; for all: rewrite in place, append to
//     the bulk of the Action's output, in the order of arrival
//  3. send     each bulk in one go: reap completions, fill the tx ring, one
//     wake-up (and more only while the kernel says that it stopped half way)
//  4. refill   the fill rings from the pool
//  5. answer   tell the XDP program that we are alive
//  6. rest     nap, or wait when nothing has come: see poller
//
// A bulk is all that leaves by one port, whatever its next hops: the layer 2
// header is in the frame already, and a wake-up per next hop would cost a
// system call for every few packets where many hosts are downloading. A flow
// comes by one receive queue and leaves by one tx ring, so its order is kept.
//
// Who owns what: a worker has a UMEM to itself, with everything that touches it,
// and there are no locks; only counters may be read from elsewhere. Every frame
// is in exactly one place: Pool (free), an Input's fill and rx ring (Input.held
// counts them), an Output (tx ring, device, completion ring: Output.held), or,
// within one iteration, the worker's hands. Nothing in here waits for a device:
// what can't be sent now is dropped and counted. There are no errors, only counters.
//
// Ports come and go by rebuilding the workers one after the other:
//
//  1. take the worker's queues out of the XSKMAP: their packets go up from now on
//  2. Stop: what is in the rx rings is forwarded
//  3. close the sockets and the UMEM, make new ones for the new ports
//  4. NewWorker, go Run, put the new queues into the XSKMAP
//
// What can be lost is what the kernel puts into an rx ring after Stop has looked
// at it (the program had begun before step 1), and what a device has not taken
// from its tx ring by step 3. A port that only goes down and up needs nothing.
package forward

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"fastpath/src/flow"
	"fastpath/src/packet"

	"golang.org/x/sys/unix"
)

// burstSize is the most packets that one iteration takes.
const burstSize = 256

// Config is what a worker works with. Everything in it but Flows is the worker's
// alone from NewWorker on, until Stop.
type Config struct {
	Pool    *Pool
	Inputs  []*Input
	Outputs []*Output // by the port's slot; nil: no such port
	Flows   *flow.Table
}

// Worker forwards what some receive queues receive.
type Worker struct {
	Config
	first   int // the input whose turn it is to be the first
	descs   [burstSize]unix.XDPDesc
	metas   [burstSize]packet.Meta
	actions [burstSize]*packet.Action
	touched []*Output // with a bulk of this burst
	scratch [burstSize]uint64
	poll    poller
	stop    chan struct{} // closed: stop
	done    chan struct{} // closed: Run has returned

	bursts, polls, naps atomic.Uint64
}

// Counters is what a worker did.
type Counters struct {
	Bursts uint64
	Polls  uint64 // waits until something comes
	Naps   uint64 // short rests, for more to come
	// NotFirst: the kernel refused the worker's priority.
	NotFirst bool
}

// NewWorker checks c and makes a worker. Run and Stop must follow.
func NewWorker(c Config) (*Worker, error) {
	if c.Pool == nil || len(c.Inputs) == 0 || c.Flows == nil {
		return nil, errors.New("forward: a worker needs a pool, inputs and flows")
	}
	fds := make([]int, len(c.Inputs))
	for i, in := range c.Inputs {
		if in.ring <= 0 || in.held > in.ring {
			return nil, fmt.Errorf("forward: %d frames in a fill ring of %d", in.held, in.ring)
		}
		fds[i] = in.q.FD()
	}
	w := &Worker{
		Config: c, touched: make([]*Output, 0, len(c.Outputs)),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if err := w.poll.open(fds); err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	return w, nil
}

// Run forwards until Stop. It keeps its thread, whose priority it changes for
// good; so the thread ends with the goroutine. While busy it does not give its
// place to other goroutines: GOMAXPROCS must be above the number of workers. And
// a Collector must know it.
func (w *Worker) Run() {
	defer close(w.done)
	runtime.LockOSThread()
	w.poll.rank.begin()
	defer w.poll.rank.end()
	w.refill()
	for {
		select {
		case <-w.stop:
			w.drain()
			return
		default:
		}
		w.rest(w.burst())
	}
}

// drain forwards what has been received already, but at most a ring full of each
// input, and tries a last time to send what was left behind.
func (w *Worker) drain() {
	left := 0
	for _, in := range w.Inputs {
		left += in.ring
	}
	for n := 1; left > 0 && n > 0; left -= n {
		n = w.burst()
	}
	w.retry()
}

// Stop ends Run and waits until it has returned: whoever takes the queues out of
// the XSKMAP before loses nothing that is in the rings. The frames stay where they are.
func (w *Worker) Stop() {
	close(w.stop)
	w.poll.wake()
	<-w.done
	w.poll.close()
}

// burst is steps 1 to 5; it returns the number of packets. It answers for empty
// bursts too: what was given may have been lost on the way.
func (w *Worker) burst() (n int) {
	for i := range w.Inputs {
		n += w.Inputs[(w.first+i)%len(w.Inputs)].receive(w.descs[n:])
	}
	if n > 0 {
		w.forward(n)
	}
	w.first = (w.first + 1) % len(w.Inputs)
	for _, in := range w.Inputs {
		in.alive.Answer()
	}
	return n
}

// forward is steps 2 to 4 for the first n descriptors. Looking up is done for
// all before rewriting begins: the first looks at a frame and at a flow miss the
// cache, and so the CPU can wait for many of them at a time.
func (w *Worker) forward(n int) {
	for i, d := range w.descs[:n] {
		w.metas[i] = w.meta(d)
	}
	for i := range n {
		w.actions[i] = w.Flows.At(w.metas[i].Ref)
	}
	at := 0
	for i := range w.Inputs {
		in := w.Inputs[(w.first+i)%len(w.Inputs)]
		for end := at + in.got; at < end; at++ {
			d := w.descs[at]
			if r := w.route(d, w.metas[at].Layout, w.actions[at]); r != packet.Forward {
				in.reasons[r]++
				w.Pool.giveDescs(w.descs[at : at+1])
			}
		}
		in.tally() // before they are sent: who sees a packet sees it counted
	}
	w.bursts.Add(1)
	for _, o := range w.touched {
		o.send()
	}
	w.touched = w.touched[:0]
	if n == burstSize { // so busy that rest may not come for long
		w.retry()
	}
	w.refill()
}

// A frame has room in front of a packet for the metadata and for what Rewrite may push.
const _ = uint(unix.XDP_PACKET_HEADROOM - packet.Headroom - packet.MetaLen)

// meta is what the program left in front of d's packet; none has the zero Ref.
func (w *Worker) meta(d unix.XDPDesc) (m packet.Meta) {
	if buf, off := w.Pool.frame(d); off >= packet.MetaLen {
		m = packet.LoadMeta(buf[off-packet.MetaLen:])
	}
	return m
}

// route rewrites one packet and puts it into its bulk, or says why not: AF_XDP
// has no way back to the kernel. The program has checked everything; but that was
// when it received the packet, and the flow may be gone or changed since.
func (w *Worker) route(d unix.XDPDesc, l packet.Layout, a *packet.Action) packet.Reason {
	if a == nil {
		return packet.NoFlow
	}
	if int(a.Out) >= len(w.Outputs) || w.Outputs[a.Out] == nil {
		return packet.NoOutput
	}
	o := w.Outputs[a.Out]
	buf, off := w.Pool.frame(d)
	off2, n, r := packet.Rewrite(buf, off, int(d.Len), l, a)
	if r != packet.Forward {
		return r
	}
	if len(o.bulk) == 0 {
		w.touched = append(w.touched, o)
	}
	o.bulk = append(o.bulk, unix.XDPDesc{Addr: d.Addr - uint64(off) + uint64(off2), Len: uint32(n)})
	return packet.Forward
}

func (w *Worker) refill() {
	for _, in := range w.Inputs {
		in.refill(w.scratch[:])
	}
}

// rest is step 6, after a burst of n packets: a nap, or, after finishing what
// other bursts left behind, a wait for more. Mostly nothing if more are there now.
func (w *Worker) rest(n int) {
	if n > 0 {
		w.poll.busy()
	}
	switch {
	case n == 0:
		w.polls.Add(1)
		w.poll.wait(w.tidy())
	case n >= napFew && n < burstSize || w.poll.tired():
		w.naps.Add(1)
		w.poll.nap()
	}
}

// retry kicks the outputs where packets were left behind, and tells whether some
// still are.
func (w *Worker) retry() (more bool) {
	for _, o := range w.Outputs {
		if o != nil {
			o.retry()
			more = more || o.backlog
		}
	}
	return more
}

// tidy tries again what could not be done before, and tells whether something
// is left.
func (w *Worker) tidy() (more bool) {
	more = w.retry()
	for _, in := range w.Inputs {
		// Given, but not received: it comes at once, or it was lost on the way and
		// has to be answered for.
		more = more || in.alive.Behind()
		if in.held == in.ring {
			continue
		}
		for _, o := range w.Outputs {
			if o != nil {
				o.reap()
			}
		}
		in.refill(w.scratch[:])
		if in.held == 0 { // nothing can be received, so nothing would wake us
			more = true
			in.count.starved.Add(1)
		}
	}
	return more
}

// Counters may be read at any time.
func (w *Worker) Counters() Counters {
	return Counters{Bursts: w.bursts.Load(), Polls: w.polls.Load(), Naps: w.naps.Load(), NotFirst: w.poll.rank.refused.Load()}
}
