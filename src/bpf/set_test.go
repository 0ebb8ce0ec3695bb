// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"fastpath/src/packet"

	"golang.org/x/sys/unix"
)

// oneFlow is a rig with one flow of an engine that comes in by slot 0, and a
// frame of it that is expected to leave.
func oneFlow(t *testing.T, e Engine) (*rig, []byte) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	f := g.flow()
	f.in.Port, f.out.Port, f.engine, f.mtu = 0, 0, e, 1500
	r := newRig(t, []*testFlow{f}, true)
	r.enter(0)
	return r, g.frame(f)
}

// verdict runs the program on a frame and returns the reason that it counted.
func (r *rig) verdict(frame []byte) packet.Reason {
	r.t.Helper()
	before, err := r.set.Counters(r.in.Slot)
	must(r.t, err)
	run(r.t, r.set, frame)
	after, err := r.set.Counters(r.in.Slot)
	must(r.t, err)
	for i := range after {
		if after[i] == before[i]+1 {
			return packet.Reason(i)
		}
	}
	r.t.Fatalf("counters %v after %v", after, before)
	return packet.NumReasons
}

func (r *rig) want(frame []byte, want packet.Reason, when string) {
	r.t.Helper()
	if got := r.verdict(frame); got != want {
		r.t.Errorf("%s: %v, want %v", when, got, want)
	}
}

// An output or a socket that isn't there.
func TestNoOutput(t *testing.T) {
	for _, e := range []Engine{EngineXDP, EngineAFXDP} {
		r, frame := oneFlow(t, e)
		must(t, r.set.DeleteDevice(0))
		must(t, r.set.DeleteDevice(0))
		r.set.Tick()
		r.want(frame, packet.NoOutput, "without the output device")
	}
	r, frame := oneFlow(t, EngineAFXDP)
	must(t, r.set.DeleteSocket(0, 0))
	must(t, r.set.DeleteSocket(0, 0))
	r.want(frame, packet.NoOutput, "without the socket")
}

func TestPortGone(t *testing.T) {
	r, frame := oneFlow(t, EngineXDP)
	must(t, r.set.DeletePort(loopback))
	must(t, r.set.DeletePort(loopback))
	if verdict, _, after := run(t, r.set, frame); verdict != xdpPass || !slices.Equal(after, frame) {
		t.Errorf("verdict %d", verdict)
	}
}

func TestFull(t *testing.T) {
	const n = 5
	s := loadSet(t, n)
	g := generator{rand.New(rand.NewPCG(3, 4))}
	var keys []packet.Key
	for _, f := range g.flows(n)[:n+1] {
		k, err := packet.NewKey(f.in, f.from)
		must(t, err)
		keys = append(keys, k)
	}
	flow := Flow{Engine: EngineXDP, Action: &packet.Action{}}
	for _, k := range keys[:n] {
		must(t, s.PutFlow(&k, flow))
	}
	for i := range 3 * spareSlots { // more changes than there are slots
		flow.Gen = uint32(i)
		must(t, s.PutFlow(&keys[i%n], flow))
		if err := s.PutFlow(&keys[n], flow); !errors.Is(err, ErrFull) {
			t.Fatalf("flow %d of %d: %v", n+1, n, err)
		}
	}
	for range 3 * spareSlots {
		must(t, s.DeleteFlow(&keys[0]))
		must(t, s.DeleteFlow(&keys[0]))
		must(t, s.PutFlow(&keys[0], flow))
	}
	for _, free := range []slots{s.slots, s.counters} {
		if got := len(free.free) + len(free.old) + n; got != n+spareSlots {
			t.Errorf("%d of %d slots are accounted for", got, n+spareSlots)
		}
	}
}

// A slot that was in use is given out again only after a wait, and a failed wait
// gives out nothing.
func TestSlots(t *testing.T) {
	s := newSlots(3)
	waits := 0
	take := func(fail error) (uint32, error) { return s.take(func() error { waits++; return fail }) }
	for want := range uint32(3) {
		if got, err := take(nil); err != nil || got != want {
			t.Errorf("took %d, %v; want %d", got, err, want)
		}
	}
	if _, err := take(nil); !errors.Is(err, ErrFull) || waits != 0 {
		t.Errorf("nothing to wait for: %v after %d waits", err, waits)
	}
	s.old = append(s.old, 2, 0)
	if _, err := take(unix.ENOMEM); !errors.Is(err, unix.ENOMEM) || len(s.old) != 2 {
		t.Errorf("a failed wait: %v, %v left", err, s.old)
	}
	got := map[uint32]bool{}
	for range 2 {
		i, err := take(nil)
		must(t, err)
		got[i] = true
	}
	if !got[0] || !got[2] || waits != 2 {
		t.Errorf("after %d waits: %v", waits, got)
	}
}

// A changed or deleted flow's slot is old, not free.
func TestSlotsOfFlows(t *testing.T) {
	s := loadSet(t, 2)
	key, flow := packet.Key{}, Flow{0, 0, EngineXDP, &packet.Action{}}
	must(t, s.PutFlow(&key, flow))
	for i := range 2 {
		b, err := view(&key, keySize)
		must(t, err)
		at, ok := s.index.find(b, s.hasKey(b))
		if !ok || !at.had {
			t.Fatal("the flow isn't there")
		}
		slot := at.flow
		if i == 0 {
			must(t, s.PutFlow(&key, flow))
		} else {
			must(t, s.DeleteFlow(&key))
		}
		if slices.Contains(s.slots.free, slot) || !slices.Contains(s.slots.old, slot) {
			t.Errorf("slot %d: free %v, old %v", slot, s.slots.free, s.slots.old)
		}
	}
}

func TestRefused(t *testing.T) {
	s := loadSet(t, 1)
	action := &packet.Action{}
	bad := packet.Port{Slot: MaxPorts}
	tests := []struct {
		err  error
		want string
	}{
		{s.PutFlow(action, Flow{0, 0, EngineXDP, action}), "*packet.Action has 116 bytes, the XDP program wants 56"},
		{s.PutFlow(&packet.Key{}, Flow{0, 0, EngineXDP, &packet.Key{}}), "*packet.Key has 56 bytes, the XDP program wants 116"},
		{s.PutFlow(&packet.Key{}, Flow{0, 0, 7, action}), "no engine 7"},
		{s.PutFlow(&packet.Key{}, Flow{0, 0, EngineAFXDP, action}), "generation 0"},
		{s.PutFlow(packet.Key{}, Flow{0, 0, EngineXDP, action}), "packet.Key is no struct"},
		{s.PutTunnel(0, [16]byte{1}, [16]byte{2}), "put tunnel: 0"},
		{s.DeleteFlow(action), "wants 56"},
		{s.PutPort(1, &bad), "slot 32: there are 32"},
		{s.PutPort(1, action), "wants 16"},
		{s.PutSocket(0, MaxQueues, 0, 64), "32 ports and 16 receive queues"},
		{s.PutSocket(MaxPorts, 0, 0, 64), "slot 32, receive queue 0"},
		{s.PutDevice(MaxPorts, 1), "output device 1 in slot 32"},
	}
	for _, tt := range tests {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("got %v, want …%s…", tt.err, tt.want)
		}
	}
	if _, err := Load(Options{}); err == nil {
		t.Error("loaded for no flows")
	}
}

// The verifier of a machine that can't access unaligned words takes the program too.
func TestStrictAlignment(t *testing.T) {
	s := loadSet(t, 1)
	strict, err := loadProgram(fastpath.license, fastpath.link(s.maps), unix.BPF_F_STRICT_ALIGNMENT)
	must(t, err)
	must(t, unix.Close(int(strict)))
}

func TestCapabilities(t *testing.T) {
	loadSet(t, 1) // as root it works, so what follows is for want of privilege
	if err := loadWith(); !errors.Is(err, ErrPermission) || strings.Contains(err.Error(), "\n") {
		t.Errorf("without privileges: %v", err)
	}
	if err := loadWith(unix.CAP_BPF, unix.CAP_NET_ADMIN); !errors.Is(err, ErrPermission) || strings.Contains(err.Error(), "\n") {
		t.Errorf("without CAP_PERFMON: %v", err)
	}
	if err := loadWith(unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON); err != nil {
		t.Errorf("with what ErrPermission asks for: %v", err)
	}
}

// loadWith loads, and unloads, with no other capabilities than these.
func loadWith(caps ...int) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread that lost its privileges ends
		var keep [2]unix.CapUserData
		for _, c := range caps {
			keep[c/32].Effective |= 1 << (c % 32)
			keep[c/32].Permitted |= 1 << (c % 32)
		}
		err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &keep[0])
		var s *Set
		if err == nil {
			s, err = Load(Options{MaxFlows: 1})
		}
		if err == nil {
			err = s.Close()
		}
		done <- err
	}()
	return <-done
}
