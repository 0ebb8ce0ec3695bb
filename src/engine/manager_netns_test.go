// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fastpath/src/bpf"
	"fastpath/src/state"
	"fastpath/src/testkit"
	"fastpath/src/xsk"

	"golang.org/x/sys/unix"
)

func TestStartAndStop(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l, want := newLab(t), forced(kind)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as the daemon has it
			var limit unix.Rlimit
			l.must(unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit))
			l.must(unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: min(mb, limit.Max), Max: limit.Max}))
			for range 3 {
				l.start(want)
				l.runs(want)
				if n := len(l.base.crew.workers); n > 0 && runtime.GOMAXPROCS(0) <= n {
					t.Errorf("%d processors for %d workers", runtime.GOMAXPROCS(0), n)
				}
				l.unlimited()
				l.runs(want) // a second look changes nothing
				l.must(l.Stop("r0"))
				if o := l.look(); len(o.Engines) != 1 || link(o, "r0").XDP != 0 || link(o, "r1").XDP == 0 {
					t.Errorf("one stopped: %v, programs %d and %d", o.Engines, link(o, "r0").XDP, link(o, "r1").XDP)
				}
				l.must(l.Start("r0", want))
				l.runs(want)
				l.must(l.Close())
				if o := l.look(); len(o.Engines) != 0 || link(o, "r0").XDP+link(o, "r1").XDP != 0 || l.base != nil {
					t.Errorf("closed: %v", o.Engines)
				}
			}
			l.must(l.Stop("r0"))
			if got := runtime.GOMAXPROCS(0); got != 1 {
				t.Errorf("GOMAXPROCS is %d afterwards", got)
			}
		})
	}
}

// unlimited: the limit of locked memory is as high as this process may set it.
func (l *lab) unlimited() {
	l.Helper()
	var have unix.Rlimit
	if l.must(unix.Getrlimit(unix.RLIMIT_MEMLOCK, &have)); have.Cur != have.Max {
		l.Errorf("%d bytes may be locked, %d could be", have.Cur, have.Max)
	}
}

// Another wish for a port that runs replaces what runs.
func TestStartAgain(t *testing.T) {
	l := newLab(t)
	l.start(forced(state.EngineXDP))
	l.start(forced(state.EngineAFXDP))
	l.runs(forced(state.EngineAFXDP))
	generic := forced(state.EngineXDP)
	generic.Generic = true
	l.start(generic)
	l.runs(generic)
	if o := l.look(); !link(o, "r0").XDPGeneric {
		t.Error("not in generic mode")
	}
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil  []string
		want   state.Engine
		reason string
	}{
		"MTU":             {[]string{"ip link set p0 mtu 9000", "ip link set r0 mtu 9000"}, forced(state.EngineXDP), "MTU 9000 is too big for XDP here (ERANGE, errno 34)"},
		"MTU of a frame":  {[]string{"ip link set p0 mtu 3000", "ip link set r0 mtu 3000"}, forced(state.EngineAFXDP), "MTU 3000, and a frame of engine afxdp holds 1706"},
		"no native mode":  {[]string{"ip link del r0", "ip link add r0 type bridge"}, forced(state.EngineXDP), "a bridge device can't run XDP programs in native mode (EOPNOTSUPP, errno 95)"},
		"too few queues":  {[]string{"ethtool -L r0 rx 1"}, forced(state.EngineXDP), "a veth device has too few queues for XDP (ENOSPC, errno 28)"},
		"no zero copy":    {nil, state.Engine{Kind: state.EngineAFXDP, ZeroCopy: true, Force: true}, "can't do zero copy (EOPNOTSUPP, errno 95)"},
		"too many queues": {[]string{"ip link del r0", "ip link add r0 numrxqueues 17 type veth peer name p0 numtxqueues 17"}, forced(state.EngineAFXDP), "17 receive queues (ethtool -L r0 reduces them); an engine serves 16"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			for _, line := range tt.spoil {
				l.run(line)
			}
			l.start(tt.want)
			l.refusedFor("r0", tt.want, tt.reason)
			l.refusedFor("r0", tt.want, tt.reason) // it stays
		})
	}
}

// What fits is what the driver says: this port's own limit is pageMTU.
func TestPageMTU(t *testing.T) {
	l, want := newLab(t), forced(state.EngineXDP)
	l.run("ip link set p0 mtu 3506")
	l.run("ip link set r0 mtu 3506")
	testkit.Need(t, pageMTU() == 3506, "pages of another size") // the limit is the page's
	l.start(want)
	l.runs(want)
	l.must(l.Close())
	l.run("ip link set p0 mtu 3507")
	l.start(want)
	l.refusedFor("r0", want, "too big for XDP")
}

func TestForeignProgram(t *testing.T) {
	l := newLab(t)
	foreign, err := bpf.Load(bpf.Options{MaxFlows: 1})
	l.must(err)
	defer foreign.Close()
	index := link(l.look(), "r0").Index
	l.must(foreign.Attach(index, bpf.Native))
	id := link(l.look(), "r0").XDP
	for _, kind := range kinds {
		want := forced(kind)
		l.start(want)
		l.refusedFor("r0", want, "XDP program "+strconv.Itoa(int(id))+" of somebody else is attached; it stays")
		if got := link(l.look(), "r0").XDP; got != id {
			t.Errorf("program %d became %d", id, got)
		}
		l.must(l.Stop("r1"))
	}
	l.must(foreign.Detach(index))
	for link(l.look(), "r0").XDP != 0 { // the kernel's own time
	}
	if o := l.look(); len(o.Refused) != 0 {
		t.Errorf("still refused when it is gone: %v", o.Refused)
	}
	l.start(forced(state.EngineXDP))
	l.runs(forced(state.EngineXDP))
}

// What another of our kind has is somebody else's.
func TestOtherInstance(t *testing.T) {
	l, want := newLab(t), forced(state.EngineAFXDP)
	l.start(want)
	other, err := New(l.Options)
	l.must(err)
	o, err := l.kernel.Observe(state.Query{})
	l.must(err)
	l.must(other.Observe(&o))
	l.must(other.Start("r0", want))
	l.must(other.Observe(&o))
	if r := o.Refused["r0"]; !strings.Contains(r.Reason, "of somebody else is attached") {
		t.Errorf("refused: %+v", o.Refused)
	}
	l.runs(want)
}

// A port of which one queue is taken has no engine, and takes nothing from the others.
func TestQueueBusy(t *testing.T) {
	l, want := newLab(t), forced(state.EngineAFXDP)
	umem, err := xsk.NewUMEM(xsk.Memory{Frames: 64, FrameSize: 2048})
	l.must(err)
	s, err := umem.Open(xsk.Options{Device: "r0", Ifindex: uint32(link(l.look(), "r0").Index), Queue: 1, Rx: 64, Tx: 64}, nil)
	l.must(err)
	l.must(l.Start("r1", want))
	l.must(l.Start("r0", want))
	l.refusedFor("r0", want, "AF_XDP on r0 queue 1: bind: another AF_XDP socket is bound to this queue")
	l.served(2, 0, 2)
	l.must(s.Close())
	l.must(umem.Close())
	l.must(l.Start("r0", want))
	l.runs(want)
}

// Without its peer's NAPI a veth device can't transmit what XDP forwards.
func TestNoTransmit(t *testing.T) {
	l, want := newLab(t), forced(state.EngineXDP)
	l.run("ethtool -K p1 gro off")
	l.start(want)
	o := l.look()
	if l.watches() {
		return
	}
	if r := o.Refused["r1"]; !strings.Contains(r.Reason, "xdp-features lack ndo-xmit") {
		t.Errorf("refused: %v", o.Refused)
	}
	if l.port("r0").retired || !l.port("r1").retired || !l.port("r0").output || l.port("r1").output {
		t.Error("the ports' state is wrong")
	}
	l.must(l.Stop("r1")) // as the plan does
	l.refusedFor("r1", want, "ndo-xmit")
	afxdp := forced(state.EngineAFXDP) // sends by itself
	l.start(afxdp)
	l.runs(afxdp)
}

// watches: this kernel, before 6.3, doesn't tell what drivers can do, and the
// first packets have to (TestFirstPacketsProve).
func (l *lab) watches() bool {
	l.Helper()
	_, known, err := l.features(l.port("r1").link.Index)
	l.must(err)
	if !known && (!l.port("r1").watched || !l.base.sink.watching()) {
		l.Error("nobody tells whether r1 can transmit, and nobody watches")
	}
	return !known
}

// It could transmit and can't any more: the ticker notices, without a look.
func TestTransmitLost(t *testing.T) {
	l, want := newLab(t), forced(state.EngineXDP)
	l.start(want)
	l.runs(want)
	if l.watches() {
		return
	}
	l.beat()
	l.runs(want)
	l.run("ethtool -K p0 gro off")
	l.beat()
	if r := l.refused["r0"]; r == nil || !strings.Contains(r.Reason, "any more") || !l.port("r0").retired || l.port("r1").retired {
		t.Errorf("refused: %+v", r)
	}
	<-l.changed
	if devices := l.outputs(); slices.Contains(devices, "r0") || !slices.Contains(devices, "r1") {
		t.Errorf("in the devmap: %v", devices)
	}
	if o := l.look(); o.Refused["r0"].Want != want || o.Engines["r0"] != want {
		t.Error("the plan can't see that it has to stop the engine")
	}
}

// outputs are the ports by which packets may leave.
func (l *lab) outputs() (names []string) {
	for _, p := range l.ports {
		if p.output {
			names = append(names, p.link.Name)
		}
	}
	return names
}

func TestPortChanges(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l, want := newLab(t), forced(kind)
			l.start(want)
			l.run("ip link set r0 address 02:00:00:00:00:77")
			l.run("ip link add br0 type bridge")
			l.run("ip link set br0 address 02:00:00:00:00:88")
			l.run("ip link set r0 master br0")
			l.runs(want)
			if got, mac := l.port("r0").addr, [6]byte{2, 0, 0, 0, 0, 0x77}; got.MACs != [2][6]byte{mac, {2, 0, 0, 0, 0, 0x88}} {
				t.Errorf("the program knows %v", got)
			}
			l.run("ip link set r0 down")
			l.run("ip link set r0 name x0")
			l.run("ip link set x0 up")
			if o := l.look(); o.Engines["x0"] != want || o.Engines["r1"] != want || len(o.Engines) != 2 {
				t.Errorf("renamed: %v", o.Engines)
			}
			l.run("ip link del x0")
			if o := l.look(); o.Engines["r1"] != want || len(o.Engines) != 1 {
				t.Errorf("deleted: %v", o.Engines)
			}
			if err := l.Start("x0", want); !errors.Is(err, ErrVanished) {
				t.Errorf("start on a port that is gone: %v", err)
			}
			l.run("ip link add r0 type veth peer name p0")
			l.run("ethtool -K p0 gro on")
			l.run("ip link set r0 up")
			l.look()
			l.must(l.Start("r0", want))
			l.runs(want)
		})
	}
}

// The port is deleted between look and start.
func TestPortVanishes(t *testing.T) {
	l := newLab(t)
	l.look()
	l.run("ip link del r0")
	if err := l.Start("r0", forced(state.EngineXDP)); !errors.Is(err, ErrVanished) {
		t.Errorf("%v", err)
	}
	if l.base != nil {
		t.Error("something is left of it")
	}
}

// Counters begin at 0 on a slot that another port had before.
func TestCountersBegin(t *testing.T) {
	l, want := newLab(t), forced(state.EngineXDP)
	l.start(want)
	var c state.Counters
	l.must(l.Counters(&c))
	if len(c.Engines) != 2 || c.Engines["r0"].Packets != 0 || c.Engines["r0"].Dropped == nil {
		t.Errorf("%+v", c)
	}
	if l.port("r0").slot == l.port("r1").slot {
		t.Error("two ports in one slot")
	}
}

// What a process may not do is refused with what it lacks, and it goes on.
func TestNotAllowed(t *testing.T) {
	for name, tt := range map[string]struct {
		drop   func() error
		kind   string
		reason string
	}{
		"capabilities": {dropCapabilities, state.EngineXDP, "no permission for BPF: CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are needed"},
		"AF_XDP":       {func() error { return testkit.DenySocket(unix.AF_XDP, unix.EAFNOSUPPORT) }, state.EngineAFXDP, "this kernel has no AF_XDP"},
	} {
		t.Run(name, func(t *testing.T) {
			l, want := newLab(t), forced(tt.kind)
			l.look()
			l.must(tt.drop()) // the thread's, which ends with the test
			for _, port := range []string{"r0", "r1"} {
				l.must(l.Start(port, want))
			}
			if r := l.refused["r0"]; r == nil || !strings.Contains(r.Reason, tt.reason) || strings.Contains(r.Reason, "\n") || l.base != nil {
				t.Errorf("refused %+v, something left: %v", r, l.base != nil)
			}
		})
	}
}

func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}
