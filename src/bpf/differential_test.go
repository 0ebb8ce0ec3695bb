// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"encoding/hex"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"fastpath/src/flow"
	"fastpath/src/packet"
	"fastpath/src/testkit"

	"golang.org/x/sys/unix"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "seed of the differential test; 0: from the clock")
	casesFlag = flag.Int("cases", 40000, "frames in the differential test")
)

func newGenerator(t *testing.T) generator {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("go test -run '%s' ./src/bpf -seed %d", t.Name(), seed)
	return generator{rand.New(rand.NewPCG(seed, 0))}
}

// rig has the same flows in a Set, in a flow table and in a list.
type rig struct {
	t      *testing.T
	set    *Set // nil: no root, so only Go and the reference are compared
	table  *flow.Table
	flows  []*testFlow
	in     packet.Port
	list   []span // whose frames are dropped
	counts [packet.NumReasons][testSlots]uint64
}

// loopback is where a program runs that BPF_PROG_TEST_RUN runs: receive queue 0
// of the namespace's lo.
const loopback = 1

func newRig(t *testing.T, flows []*testFlow, kernel bool) *rig {
	r := &rig{t: t, table: flow.New(len(flows)), flows: flows}
	if kernel {
		r.set = loadSet(t, len(flows))
		for slot := range uint16(testSlots - 1) {
			must(t, r.set.PutDevice(slot, loopback))
		}
		fd := xdpSocket(t)
		for slot := range uint16(testSlots) {
			must(t, r.set.PutSocket(slot, 0, fd, 64))
		}
		for _, tun := range tunnels {
			must(t, r.set.PutTunnel(tun.id, tun.local.As16(), tun.remote.As16()))
		}
	}
	for _, f := range flows {
		var err error
		f.key, err = packet.NewKey(f.in, f.from)
		must(t, err)
		f.action, err = packet.NewAction(f.key, f.out, f.to, f.mtu)
		must(t, err)
		f.ref, err = r.table.Put(f.key, f.action)
		must(t, err)
		if kernel {
			must(t, r.set.PutFlow(&f.key, Flow{f.ref.Index, f.ref.Gen, f.engine, &f.action}))
		}
	}
	return r
}

// xdpSocket is a socket that may stand in the map: from 7.3 on it needs a receive
// ring. Nothing is ever received.
func xdpSocket(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW, 0)
	testkit.Need(t, err == nil, "the kernel has no AF_XDP")
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_RX_RING, 64))
	return fd
}

func loadSet(t *testing.T, maxFlows int) *Set {
	t.Helper()
	testkit.Need(t, os.Getuid() == 0, "BPF needs root")
	s, err := Load(Options{MaxFlows: uint32(maxFlows)})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// enter makes frames come in by the port in slot.
func (r *rig) enter(slot uint16) {
	r.in = port(slot)
	if r.set != nil {
		must(r.t, r.set.PutPort(loopback, &r.in))
	}
}

// check runs a frame through all three. It returns what became of it.
func (r *rig) check(frame []byte) packet.Reason {
	want, f, leaves := refRun(frame, r.in, r.flows, tunnels)
	r.checkGo(frame, want, leaves)
	if r.set != nil && len(frame) >= 14 { // less can't be given to the kernel
		if f == nil && refListed(frame, r.in, r.list) {
			want = packet.DropList
		}
		if want == packet.Forward && f.out.Port == testSlots-1 {
			want = packet.NoOutput
		}
		r.checkKernel(frame, want, f, leaves)
	}
	if r.t.Failed() {
		r.t.Fatalf("slot %d, flow %+v, frame\n%s", r.in.Slot, f, hex.Dump(frame))
	}
	return want
}

func (r *rig) checkGo(frame []byte, want packet.Reason, leaves []byte) {
	var p packet.Parsed
	before := slices.Clone(frame)
	got := packet.Parse(frame, &r.in, parseTunnels(), &p)
	if !bytes.Equal(frame, before) {
		r.t.Error("Parse changed the frame")
	}
	var a *packet.Action
	if got == packet.Forward {
		got = packet.NoFlow
		if ref, ok := r.table.Find(p.Key); ok {
			a = r.table.At(ref)
		}
	}
	if a != nil {
		got = r.checkRewrite(frame, p.Layout, a, leaves)
	}
	if got != want {
		r.t.Errorf("Go says %v, the reference %v", got, want)
	}
}

func parseTunnels() packet.Tunnels {
	all := packet.Tunnels{}
	for _, t := range tunnels {
		all[packet.Endpoints{Local: t.local.As16(), Remote: t.remote.As16()}] = t.id
	}
	return all
}

// checkRewrite lets Go rewrite a frame and compares it with what has to leave.
func (r *rig) checkRewrite(frame []byte, l packet.Layout, a *packet.Action, leaves []byte) packet.Reason {
	const off = 80
	buf := append(make([]byte, off), frame...)
	buf = append(buf, bytes.Repeat([]byte{0xee}, packet.MinFrame)...)
	before := slices.Clone(buf)
	off2, n2, got := packet.Rewrite(buf, off, len(frame), l, a)
	if got != packet.Forward {
		if !bytes.Equal(buf, before) {
			r.t.Error("Rewrite changed what it refused")
		}
		return got
	}
	if !bytes.Equal(buf[off2:off2+n2], leaves) {
		r.t.Errorf("Go makes\n%sthe reference\n%s", hex.Dump(buf[off2:off2+n2]), hex.Dump(leaves))
	}
	return got
}

func TestDifferential(t *testing.T) {
	t.Run("kernel", func(t *testing.T) { testDifferential(t, true) })
	t.Run("go", func(t *testing.T) { testDifferential(t, false) })
}

func testDifferential(t *testing.T, kernel bool) {
	g := newGenerator(t)
	r := newRig(t, g.flows(32), kernel)
	var seen [packet.NumReasons]int
	engines := map[Engine]int{}
	for slot := range uint16(testSlots) {
		r.enter(slot)
		for range *casesFlag / testSlots {
			f := r.flows[g.IntN(len(r.flows))]
			for f.in.Port != slot && !g.one(64) {
				f = r.flows[g.IntN(len(r.flows))]
			}
			frame := g.frame(f)
			if g.one(2) {
				frame = g.mutate(f, frame)
			}
			reason := r.check(frame)
			if seen[reason]++; reason == packet.Forward {
				engines[f.engine]++
			}
		}
	}
	t.Logf("%v of each reason, of what was forwarded by engine: %v", seen, engines)
	for reason, n := range seen {
		switch packet.Reason(reason) {
		case packet.Stale, packet.NoRoom, packet.Shed, packet.DropList: // tested by themselves
		case packet.NoOutput:
			if n == 0 && kernel {
				t.Error("no case of no-output")
			}
		default:
			if n == 0 && *casesFlag >= 10000 {
				t.Errorf("no case of %v", packet.Reason(reason))
			}
		}
	}
}

// Every shape of frame, cut off after every byte.
func TestDifferentialTruncated(t *testing.T) {
	t.Run("kernel", func(t *testing.T) { testTruncated(t, true) })
	t.Run("go", func(t *testing.T) { testTruncated(t, false) })
}

func testTruncated(t *testing.T, kernel bool) {
	g := newGenerator(t)
	flows := g.flows(60)
	for _, f := range flows {
		f.in.Port = 0
	}
	flows = slices.CompactFunc(flows, func(a, b *testFlow) bool { // twins that differed by port only
		ka, _ := packet.NewKey(a.in, a.from)
		kb, _ := packet.NewKey(b.in, b.from)
		return ka == kb
	})
	r := newRig(t, flows, kernel)
	r.enter(0)
	for _, f := range flows {
		frame := g.frame(f)
		for n := range min(len(frame), 140) {
			r.check(slices.Clone(frame[:n]))
		}
		r.check(frame)
	}
}
