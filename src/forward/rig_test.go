// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"testing"

	"fastpath/src/flow"
	"fastpath/src/packet"
)

const (
	ring       = 256
	flowsEach  = 4                       // flows per output
	payloadOff = 14 + 20 + 8             // Ethernet, IPv4, UDP
	packetLen  = payloadOff + 4 + 8 + 10 // flow, sequence, filler
)

// rig is a worker with fake ports; the first ones have an input, all have an output.
type rig struct {
	k        *kernel
	pool     *Pool
	frames   int
	table    *flow.Table
	queues   []*queue // by port slot
	inputs   []*Input
	outputs  []*Output
	worker   *Worker
	alive    [8]liveness // by input
	metas    [][]byte    // by flow
	packets  [][]byte
	sequence []uint64 // next to send, by flow
	arrived  []uint64 // last seen on the wire, by flow
	wire     uint64   // packets seen on the wire
	disorder int
}

// liveness plays the XDP program's part of the heartbeat.
type liveness struct{ given, taken atomic.Uint32 }

func (l *liveness) Answer()      { l.taken.Store(l.given.Load()) }
func (l *liveness) Behind() bool { return l.taken.Load() != l.given.Load() }

// newRig makes ports ports, the first of which have an input each. Frames are
// exactly what Frames() says.
func newRig(t testing.TB, ports, inputs int) *rig {
	t.Helper()
	r := &rig{frames: Frames(inputs, ports, ring), table: flow.New(ports * flowsEach)}
	r.k = newKernel(t, r.frames)
	r.pool = NewPool(r.k.umem, frameSize)
	for i := range ports {
		q := r.k.queue(ring)
		q.sent = r.check
		r.queues = append(r.queues, q)
		r.outputs = append(r.outputs, NewOutput(q, r.pool, ring))
		if i < inputs {
			r.inputs = append(r.inputs, NewInput(q, &r.alive[i], r.pool, ring, 0))
		}
	}
	for i := range ports * flowsEach {
		r.addFlow(t, i)
	}
	var err error
	if r.worker, err = NewWorker(Config{Pool: r.pool, Inputs: r.inputs, Outputs: r.outputs, Flows: r.table}); err != nil {
		t.Fatal(err)
	}
	r.worker.refill()
	return r
}

// addFlow makes flow i, which leaves by port i%ports with another source.
func (r *rig) addFlow(t testing.TB, i int) {
	t.Helper()
	from, to := tuple("10.0.0.1", uint16(1000+i)), tuple("192.0.2.1", uint16(2000+i))
	k, err := packet.NewKey(packet.Wire{}, from)
	if err != nil {
		t.Fatal(err)
	}
	out := packet.Wire{Port: uint16(i % len(r.queues)), Peer: [6]byte{2, 0, 0, 0, 1, byte(i)}, Own: [6]byte{2, 0, 0, 0, 0, 1}}
	a, err := packet.NewAction(k, out, to, 1500)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := r.table.Put(k, a)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, packetLen)
	p[12], p[14], p[22], p[23] = 8, 0x45, 64, packet.UDP
	binary.BigEndian.PutUint16(p[16:], packetLen-14)
	binary.BigEndian.PutUint32(p[payloadOff:], uint32(i))
	meta := make([]byte, packet.MetaLen)
	binary.NativeEndian.PutUint32(meta, ref.Index)
	binary.NativeEndian.PutUint32(meta[4:], ref.Gen)
	meta[8], meta[9], meta[10] = 14, 4, packet.UDP
	binary.NativeEndian.PutUint16(meta[12:], packetLen-14)
	r.packets, r.metas = append(r.packets, p), append(r.metas, meta)
	r.sequence, r.arrived = append(r.sequence, 1), append(r.arrived, 0)
}

func tuple(src string, port uint16) packet.Tuple {
	return packet.Tuple{Proto: packet.UDP, Src: netip.AddrPortFrom(netip.MustParseAddr(src), port),
		Dst: netip.MustParseAddrPort("198.51.100.1:53")}
}

// deliver receives one packet of a flow at a port and says whether it fitted.
func (r *rig) deliver(port, flow int) bool {
	binary.BigEndian.PutUint64(r.packets[flow][payloadOff+4:], r.sequence[flow])
	r.alive[port].given.Add(1)
	if !r.queues[port].deliver(r.metas[flow], r.packets[flow]) {
		return false
	}
	r.sequence[flow]++
	return true
}

// check sees every packet on the wire; the kernel's lock is held.
func (r *rig) check(p []byte) {
	r.wire++
	flow := binary.BigEndian.Uint32(p[payloadOff:])
	seq := binary.BigEndian.Uint64(p[payloadOff+4:])
	if len(p) != packetLen || p[5] != byte(flow) || p[22] != 63 || seq <= r.arrived[flow] {
		r.disorder++
	}
	r.arrived[flow] = seq
}

// audit compares what pool, inputs and outputs believe with where the frames
// really are. Nothing may be under way.
func (r *rig) audit(t testing.TB) {
	t.Helper()
	held, out := 0, 0
	for i, in := range r.inputs {
		if n := len(r.queues[i].fill) + len(r.queues[i].rx); n != in.held {
			t.Errorf("port %d has %d frames to receive into, its input believes %d", i, n, in.held)
		}
		held += in.held
	}
	for i, o := range r.outputs {
		q := r.queues[i]
		if n := len(q.tx) + len(q.inDevice) + len(q.completed); n != o.held {
			t.Errorf("port %d holds %d frames, its output believes %d", i, n, o.held)
		}
		out += o.held
	}
	if n := r.k.count(user); n != r.pool.Free() {
		t.Errorf("%d frames are ours, the pool has %d", n, r.pool.Free())
	}
	if n := r.k.count(filled) + r.k.count(received); n != held {
		t.Errorf("%d frames are with the receivers, the inputs believe %d", n, held)
	}
	if total := r.pool.Free() + held + out; total != r.frames {
		t.Errorf("%d frames in all, want %d", total, r.frames)
	}
}

// balance compares packets in with packets out and dropped.
func (r *rig) balance(t testing.TB, lost uint64) {
	t.Helper()
	var in, dropped, queued uint64
	for _, i := range r.inputs {
		c := i.Counters()
		in += c.Packets
		for _, n := range c.Dropped {
			dropped += n
		}
	}
	for _, o := range r.outputs {
		c := o.Counters()
		queued += c.Queued
		dropped += c.Full + c.Down
	}
	if in != queued+dropped || queued != r.wire+lost {
		t.Errorf("%d in, %d queued, %d dropped, %d on the wire, %d lost by devices", in, queued, dropped, r.wire, lost)
	}
	if r.disorder > 0 {
		t.Errorf("%d packets were wrong or out of order", r.disorder)
	}
}

// lossTo counts what lossy devices drop into n.
func (r *rig) lossTo(n *uint64) {
	for _, q := range r.queues {
		q.lost = n
	}
}
