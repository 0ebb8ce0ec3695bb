// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/kernel"
	"fastpath/src/state"
	"fastpath/src/testkit"
)

// patience is for a busy machine; nothing here is measured by time.
const patience = time.Minute

// lab is a namespace, with the /sys that shows it, that has two ports r0 and
// r1, whose other ends are p0 and p1; and a Manager in it.
type lab struct {
	*testing.T
	*Manager
	kernel  *kernel.Kernel
	changed chan struct{}
	rules   bool // see plan
}

func newLab(t *testing.T) *lab {
	t.Helper()
	testkit.Need(t, os.Geteuid() == 0, "needs root")
	runtime.LockOSThread() // for good: the thread, and the namespace with it, ends with the test
	err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS)
	testkit.Need(t, err == nil, "needs a network namespace")
	l := &lab{T: t, changed: make(chan struct{}, 100)}
	l.must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	l.must(unix.Mount("sysfs", "/sys", "sysfs", 0, ""))
	for _, n := range []string{"0", "1"} {
		l.run("ip link add r" + n + " numrxqueues 2 numtxqueues 2 type veth peer name p" + n + " numrxqueues 2 numtxqueues 2")
		l.run("ethtool -K p" + n + " gro on tx off")
		l.run("ip link set r" + n + " up")
		l.run("ip link set p" + n + " up")
	}
	log := slog.New(slog.DiscardHandler)
	l.kernel, err = kernel.New(t.TempDir(), log)
	l.must(err)
	l.Manager, err = New(Options{Log: log, MemTotal: 256 * mb, Changed: func() { l.changed <- struct{}{} }})
	l.must(err)
	t.Cleanup(func() {
		l.must(l.Close())
		l.must(l.kernel.Close())
	})
	return l
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) run(line string) {
	l.Helper()
	words := strings.Fields(line)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		l.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// look is one look at the kernel.
func (l *lab) look() state.Observed {
	l.Helper()
	o, err := l.kernel.Observe(state.Query{})
	l.must(err)
	l.must(l.Observe(&o))
	return o
}

// link is a port as the last look saw it.
func link(o state.Observed, name string) state.Link {
	i := slices.IndexFunc(o.Links, func(l state.Link) bool { return l.Name == name })
	if i < 0 {
		return state.Link{}
	}
	return o.Links[i]
}

// start starts an engine on both ports.
func (l *lab) start(want state.Engine) {
	l.Helper()
	l.look()
	for _, port := range []string{"r0", "r1"} {
		l.must(l.Start(port, want))
	}
}

// runs: both ports have the engine, by the Manager's and by the kernel's word.
func (l *lab) runs(want state.Engine) {
	l.Helper()
	o := l.look()
	for _, port := range []string{"r0", "r1"} {
		if o.Engines[port] != want || link(o, port).XDP == 0 || o.Refused[port] != (state.Refusal{}) {
			l.Errorf("%s: engine %v, program %d, refused %v", port, o.Engines[port], link(o, port).XDP, o.Refused[port])
		}
	}
}

// refusedFor: the port has no engine for this reason, and nothing of ours on it.
func (l *lab) refusedFor(port string, want state.Engine, reason string) {
	l.Helper()
	o := l.look()
	_, runs := o.Engines[port]
	if r := o.Refused[port]; runs || r.Want != want || !strings.Contains(r.Reason, reason) || strings.Contains(r.Reason, "\n") {
		l.Errorf("%s: runs %v, refused %+v; want %q", port, runs, r, reason)
	}
	if l.own[link(o, port).XDP] {
		l.Errorf("%s has our program", port)
	}
}

// forced is an engine that needn't earn its place.
func forced(kind string) state.Engine {
	return state.Engine{Kind: kind, Force: true, Mark: 0x40000000}
}

var kinds = []string{state.EngineXDP, state.EngineAFXDP}
