// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"encoding/hex"
	"testing"

	"fastpath/src/packet"

	"github.com/cilium/ebpf"
)

// The program's return values.
const (
	xdpPass     = 2
	xdpRedirect = 4
)

// xdpMd is struct xdp_md as BPF_PROG_TEST_RUN has it.
type xdpMd struct{ Data, DataEnd, DataMeta, Ifindex, Queue, Egress uint32 }

// run runs the program on a frame; it returns the verdict, the metadata and the frame after it.
func run(t *testing.T, s *Set, frame []byte) (verdict uint32, meta, after []byte) {
	t.Helper()
	var ctx xdpMd
	o := ebpf.RunOptions{
		Data: frame, DataOut: make([]byte, 4096),
		Context: xdpMd{DataEnd: uint32(len(frame))}, ContextOut: &ctx,
	}
	verdict, err := s.obj.Fastpath.Run(&o)
	if err != nil {
		t.Fatalf("run the program on %d bytes: %v", len(frame), err)
	}
	return verdict, o.DataOut[:ctx.Data], o.DataOut[ctx.Data:]
}

func (r *rig) checkKernel(frame []byte, want packet.Reason, f *testFlow, leaves []byte) {
	r.set.Tick()
	if f != nil && f.engine == EngineAFXDP { // as its worker would
		q, err := r.set.Queue(r.in.Slot, 0)
		must(r.t, err)
		q.Answer()
	}
	verdict, meta, after := run(r.t, r.set, frame)
	r.checkCount(want)
	switch {
	case want != packet.Forward:
		if verdict != xdpPass || len(meta) != 0 || !bytes.Equal(after, frame) {
			r.t.Errorf("verdict %d, metadata %x; for %v the frame should pass as it came, but is\n%s",
				verdict, meta, want, hex.Dump(after))
		}
	case verdict != xdpRedirect:
		r.t.Errorf("verdict %d instead of a redirect", verdict)
	case f.engine == EngineXDP:
		if len(meta) != 0 || !bytes.Equal(after, leaves) {
			r.t.Errorf("the program makes\n%sthe reference\n%s", hex.Dump(after), hex.Dump(leaves))
		}
	default:
		r.checkSteered(frame, meta, after, f, leaves)
	}
}

// checkCount: of the counters, want's went up by 1 (and so no other did).
func (r *rig) checkCount(want packet.Reason) {
	var perCPU []uint64
	must(r.t, r.set.obj.Counters.Lookup(uint32(r.in.Slot)*numReasons+uint32(want), &perCPU))
	total := uint64(0)
	for _, n := range perCPU {
		total += n
	}
	r.counts[want][r.in.Slot]++
	if total != r.counts[want][r.in.Slot] {
		r.t.Errorf("the program doesn't say %v as the reference does", want)
	}
}

// checkSteered does what a worker does with a frame it gets.
func (r *rig) checkSteered(frame, meta, after []byte, f *testFlow, leaves []byte) {
	if len(meta) != packet.MetaLen || !bytes.Equal(after, frame) {
		r.t.Errorf("metadata %x; the frame should be as it came, but is\n%s", meta, hex.Dump(after))
		return
	}
	m := packet.LoadMeta(meta)
	var p packet.Parsed
	packet.Parse(frame, &r.in, &p)
	if m.Ref != f.ref || m.Layout != p.Layout {
		r.t.Errorf("metadata %+v, want %+v and %+v", m, f.ref, p.Layout)
	}
	if a := r.table.At(m.Ref); a == nil {
		r.t.Error("the metadata's flow is not in the table")
	} else if got := r.checkRewrite(after, m.Layout, a, leaves); got != packet.Forward {
		r.t.Errorf("the worker says %v", got)
	}
}
