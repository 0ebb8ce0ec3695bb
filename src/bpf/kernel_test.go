// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"encoding/hex"
	"testing"

	"fastpath/src/packet"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// The program's return values.
const (
	xdpDrop     = 1
	xdpPass     = 2
	xdpRedirect = 4
)

// xdpMd is struct xdp_md as BPF_PROG_TEST_RUN has it.
type xdpMd struct{ Data, DataEnd, DataMeta, Ifindex, Queue, Egress uint32 }

// handle is the program for cilium/ebpf, which runs it and tells about it.
func (p program) handle(t testing.TB) *ebpf.Program {
	t.Helper()
	prog, err := ebpf.NewProgramFromFD(duplicate(t, int(p)))
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

func (m table) handle(t testing.TB) *ebpf.Map {
	t.Helper()
	handle, err := ebpf.NewMapFromFD(duplicate(t, int(m)))
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

func duplicate(t testing.TB, fd int) int {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// run runs the program on a frame; it returns the verdict, the metadata and the frame after it.
func run(t *testing.T, s *Set, frame []byte) (verdict uint32, meta, after []byte) {
	t.Helper()
	var ctx xdpMd
	o := ebpf.RunOptions{
		Data: frame, DataOut: make([]byte, 4096),
		Context: xdpMd{DataEnd: uint32(len(frame))}, ContextOut: &ctx,
	}
	prog := s.program.handle(t)
	defer prog.Close()
	verdict, err := prog.Run(&o)
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
	case want == packet.DropList:
		if verdict != xdpDrop {
			r.t.Errorf("verdict %d for a listed source", verdict)
		}
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
	n, err := r.set.Counters(r.in.Slot)
	must(r.t, err)
	total := n[want]
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
	packet.Parse(frame, &r.in, parseTunnels(), &p)
	if m.Ref != f.ref || m.Layout != p.Layout {
		r.t.Errorf("metadata %+v, want %+v and %+v", m, f.ref, p.Layout)
	}
	if a := r.table.At(m.Ref); a == nil {
		r.t.Error("the metadata's flow is not in the table")
	} else if got := r.checkRewrite(after, m.Layout, a, leaves); got != packet.Forward {
		r.t.Errorf("the worker says %v", got)
	}
}
