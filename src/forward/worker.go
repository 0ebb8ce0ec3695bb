// SPDX-License-Identifier: Apache-2.0

// Package forward moves packets between AF_XDP sockets: a worker per rx queue.
//
// The way of a burst (one iteration of Run):
//
//  1. wait     ppoll on the rx queue, only when the last burst was empty
//  2. receive  up to 64 descriptors from the rx ring
//  3. route    for all: the flow's Ref and the layout from the metadata in front
//     of the frame; for all: Ref → Action; for all: rewrite in place, append to
//     the bulk of the Action's output port, in the order of arrival
//  4. send     each bulk in one go: reap completions, fill the tx ring, one
//     wake-up (and more only while the kernel says that it stopped half way)
//  5. refill   the fill ring from the pool
//  6. answer   tell the XDP program that we are alive
//
// A bulk is all that leaves by one port, whatever its next hops: the layer 2
// header is in the frame already, and a wake-up per next hop would cost a
// system call for every few packets where many hosts are downloading.
//
// Who owns what: every frame is in exactly one place. Pool (free), a worker's
// fill and rx ring (Worker.held counts them), an Output (tx ring, device,
// completion ring: Output.held), or, within one iteration, the worker's hands.
// Pool and Output have locks, taken once per bulk, never one inside another but
// Output's outside Pool's. Everything else belongs to the worker's goroutine.
// Nothing in here waits for a device: what can't be sent now is dropped and
// counted. There are no errors, only counters.
package forward

import (
	"errors"
	"fmt"
	"runtime"

	"fastpath/src/flow"
	"fastpath/src/packet"

	"golang.org/x/sys/unix"
)

// burstSize is the most packets that one iteration takes. 16 to 256 measure the
// same, 4 costs a third more.
const burstSize = 64

// Config is what a worker works with.
type Config struct {
	In     Queue // whose packets it takes
	Filled int   // frames that are in In's fill ring already
	Ring   int   // slots of In's fill ring: it is kept full
	Alive  Liveness

	Memory    []byte // the UMEM
	FrameSize uint32 // a power of two
	Pool      *Pool
	Outputs   []*Output // by the port's slot; nil: no such port
	Flows     *flow.Table

	// Nice is the worker's nice value. It must be above that of NAPI (0):
	// where both share a core, the packets that NAPI can't fetch are lost.
	Nice int
}

// Worker forwards what one rx queue receives.
type Worker struct {
	Config
	held    int // frames in the fill and the rx ring
	descs   [burstSize]unix.XDPDesc
	metas   [burstSize]packet.Meta
	actions [burstSize]*packet.Action
	bulks   [][]unix.XDPDesc // by the output port's slot
	touched []uint16         // slots with a bulk in this burst
	dropped []unix.XDPDesc
	scratch [burstSize]uint64
	reasons [packet.NumReasons]uint64 // of this burst
	poll    poller
	stop    chan struct{} // closed: stop
	done    chan struct{} // closed: Run has returned
	count   counters
}

// NewWorker checks c and makes a worker. Run must follow, and Close after that.
func NewWorker(c Config) (*Worker, error) {
	size := int(c.FrameSize)
	switch {
	case c.In == nil || c.Alive == nil || c.Pool == nil || c.Flows == nil:
		return nil, errors.New("forward: a worker needs a queue, a way to say that it is alive, a pool and flows")
	case size == 0 || size&(size-1) != 0 || len(c.Memory)%size != 0:
		return nil, fmt.Errorf("forward: %d bytes of memory don't make frames of %d", len(c.Memory), size)
	case c.Ring <= 0 || c.Filled > c.Ring:
		return nil, fmt.Errorf("forward: %d frames in a fill ring of %d", c.Filled, c.Ring)
	}
	w := &Worker{
		Config: c, held: c.Filled,
		bulks:   make([][]unix.XDPDesc, len(c.Outputs)),
		touched: make([]uint16, 0, len(c.Outputs)),
		dropped: make([]unix.XDPDesc, 0, burstSize),
		stop:    make(chan struct{}), done: make(chan struct{}),
	}
	for i := range w.bulks {
		w.bulks[i] = make([]unix.XDPDesc, 0, burstSize)
	}
	if err := w.poll.open(c.In.FD()); err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	return w, nil
}

// Run forwards until Stop. It keeps its thread, whose nice value it lowers for
// good; so the thread ends with the goroutine.
func (w *Worker) Run() {
	defer close(w.done)
	runtime.LockOSThread()
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, w.Nice); err != nil {
		w.count.unprivileged.Store(1) // it goes on: slower under overload, not wrong
	}
	w.refill()
	for {
		select {
		case <-w.stop:
			w.drain()
			return
		default:
		}
		if w.burst() > 0 {
			w.poll.busy()
			continue
		}
		w.idle()
	}
}

// drain forwards what has been received already, but at most a ring full, and
// tries a last time to send what was left behind.
func (w *Worker) drain() {
	for left, n := w.Ring, 1; left > 0 && n > 0; left -= n {
		n = w.burst()
	}
	w.retry()
}

// Stop ends Run and waits until it has returned: whoever takes the XDP program
// off the port before loses nothing. The frames stay where they are.
func (w *Worker) Stop() {
	close(w.stop)
	w.poll.wake()
	<-w.done
	w.poll.close()
}

// burst is steps 2 to 6; it returns the number of packets. It answers for empty
// bursts too: what was given may have been lost on the way.
func (w *Worker) burst() int {
	n := w.In.Receive(w.descs[:])
	if n > 0 {
		w.forward(n)
	}
	w.Alive.Answer()
	return n
}

// forward is steps 3 to 5 for the first n descriptors. Looking up is done for
// all before rewriting begins: the first looks at a frame and at a flow miss the
// cache, and so the CPU can wait for many of them at a time.
func (w *Worker) forward(n int) {
	w.held -= n
	descs := w.descs[:n]
	for i, d := range descs {
		w.metas[i] = w.meta(d)
	}
	for i := range descs {
		w.actions[i] = w.Flows.At(w.metas[i].Ref)
	}
	bytes := uint64(0)
	for i, d := range descs {
		bytes += uint64(d.Len)
		if r := w.route(d, w.metas[i].Layout, w.actions[i]); r != packet.Forward {
			w.dropped = append(w.dropped, d)
			w.reasons[r]++
		}
	}
	w.count.bursts.Add(1) // before they are sent: who sees a packet sees it counted
	w.count.packets.Add(uint64(n))
	w.count.bytes.Add(bytes)
	for _, slot := range w.touched {
		w.Outputs[slot].send(w.bulks[slot])
		w.bulks[slot] = w.bulks[slot][:0]
	}
	w.touched = w.touched[:0]
	if n == burstSize { // so busy that idle may not come for long
		w.retry()
	}
	if len(w.dropped) > 0 {
		w.drop()
	}
	w.refill()
}

// frame is the frame that holds d's packet, and the packet's offset in it.
func (w *Worker) frame(d unix.XDPDesc) (buf []byte, off int) {
	base := d.Addr &^ uint64(w.FrameSize-1)
	return w.Memory[base : base+uint64(w.FrameSize)], int(d.Addr - base)
}

// meta is what the program left in front of d's packet; none has the zero Ref.
func (w *Worker) meta(d unix.XDPDesc) (m packet.Meta) {
	if buf, off := w.frame(d); off >= packet.MetaLen {
		m = packet.LoadMeta(buf[off-packet.MetaLen:])
	}
	return m
}

// route rewrites one packet and puts it into its bulk, or says why not. The
// program has checked everything; but that was when it received the packet, and
// the flow may be gone or changed since.
func (w *Worker) route(d unix.XDPDesc, l packet.Layout, a *packet.Action) packet.Reason {
	if a == nil {
		return packet.NoFlow
	}
	slot := a.Out
	if int(slot) >= len(w.Outputs) || w.Outputs[slot] == nil {
		return packet.NoOutput
	}
	buf, off := w.frame(d)
	off2, n, r := packet.Rewrite(buf, off, int(d.Len), l, a)
	if r != packet.Forward {
		return r
	}
	if len(w.bulks[slot]) == 0 {
		w.touched = append(w.touched, slot)
	}
	w.bulks[slot] = append(w.bulks[slot], unix.XDPDesc{Addr: d.Addr - uint64(off) + uint64(off2), Len: uint32(n)})
	return packet.Forward
}

// drop frees the frames of packets that can't be forwarded: AF_XDP has no way
// back to the kernel.
func (w *Worker) drop() {
	w.Pool.giveDescs(w.dropped)
	w.dropped = w.dropped[:0]
	for r, n := range w.reasons {
		if n > 0 {
			w.count.dropped[r].Add(n)
			w.reasons[r] = 0
		}
	}
}

// refill keeps the fill ring full: the kernel drops what finds it empty. The
// pool has enough frames for that as long as it was made with Frames().
func (w *Worker) refill() {
	for w.held < w.Ring {
		n := w.Pool.Take(w.scratch[:min(len(w.scratch), w.Ring-w.held)])
		if n == 0 {
			break
		}
		m := w.In.Fill(w.scratch[:n])
		w.held += m
		if m < n {
			w.Pool.Give(w.scratch[m:n])
			break
		}
	}
	w.In.WakeRx()
}

// idle is step 1: finish what other bursts left behind, then wait. While
// something is left it looks again soon, and ever more rarely.
func (w *Worker) idle() {
	w.count.polls.Add(1)
	w.poll.wait(w.tidy())
}

// retry kicks the outputs where packets were left behind, and tells whether some
// still are.
func (w *Worker) retry() (more bool) {
	for _, o := range w.Outputs {
		if o != nil {
			o.retry()
			more = more || o.backlog.Load()
		}
	}
	return more
}

// tidy tries again what could not be done before, and tells whether something
// is left.
func (w *Worker) tidy() (more bool) {
	// Given, but not received: it comes at once, or it was lost on the way and
	// has to be answered for.
	more = w.Alive.Behind()
	more = w.retry() || more
	if w.held == w.Ring {
		return more
	}
	for _, o := range w.Outputs {
		if o != nil {
			o.reclaim()
		}
	}
	w.refill()
	if w.held == 0 { // nothing can be received, so nothing would wake us
		more = true
		w.count.starved.Add(1)
	}
	return more
}
