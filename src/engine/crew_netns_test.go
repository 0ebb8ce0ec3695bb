// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"runtime"
	"strings"
	"testing"

	"fastpath/src/state"
)

// Two ports vanish at once: the third keeps its engine, with workers.
func TestPortsVanish(t *testing.T) {
	l, want := newLab(t), forced(state.EngineAFXDP)
	l.run("ip link add r2 type veth peer name p2")
	l.run("ip link set r2 up")
	l.start(want)
	l.must(l.Start("r2", want))
	l.look()
	l.run("ip link del r0")
	l.run("ip link del r2")
	o, err := l.kernel.Observe(state.Query{})
	l.must(err)
	_ = l.Observe(&o) // it tells what went wrong on the way
	if o = l.look(); len(o.Engines) != 1 || o.Engines["r1"] != want || len(o.Refused) != 0 {
		t.Errorf("engines %v, refused %v", o.Engines, o.Refused)
	}
	l.served(2, 0, 2)
}

// Workers that can't be brought back: the port says so instead of idling.
func TestNoWorkers(t *testing.T) {
	l, want := newLab(t), forced(state.EngineAFXDP)
	l.start(want)
	l.look()
	l.must(l.base.crew.dismiss())
	l.base.crew.memTotal = leastMemory / 1000
	l.look()
	if o := l.look(); !strings.Contains(o.Refused["r0"].Reason, "no workers any more: not enough memory") || len(l.outputs()) != 0 {
		t.Errorf("refused %v, outputs %v", o.Refused, l.outputs())
	}
}

// Every receive queue has a socket, also when there are more than before.
func TestQueues(t *testing.T) {
	l, want := newLab(t), forced(state.EngineAFXDP)
	l.run("ethtool -L p0 rx 1 tx 1")
	l.run("ethtool -L r0 rx 1 tx 1")
	l.start(want)
	l.served(1, 1, 2)
	l.run("ethtool -L r0 rx 2 tx 2")
	if o := l.look(); len(o.Engines) != 1 || o.Engines["r1"] != want || len(o.Refused) != 0 {
		t.Errorf("another queue: %v, %v", o.Engines, o.Refused)
	}
	l.served(2, 0, 2)
	l.must(l.Start("r0", want))
	l.served(2, 2, 2)
	l.run("ip link set p0 mtu 1800")
	l.run("ip link set r0 mtu 1800")
	if o := l.look(); len(o.Engines) != 1 {
		t.Errorf("frames don't fit any more: %v", o.Engines)
	}
	l.must(l.Start("r0", want))
	l.refusedFor("r0", want, "MTU 1800")
	l.served(2, 0, 2)
}

// served: so many workers, and sockets on the ports.
func (l *lab) served(workers, r0, r1 int) {
	l.Helper()
	l.look()
	sockets := map[string]int{}
	for _, w := range l.base.crew.workers {
		for _, s := range w.sockets {
			sockets[s.port.link.Name]++
		}
	}
	if n := len(l.base.crew.workers); n != min(workers, runtime.NumCPU()) || sockets["r0"] != r0 || sockets["r1"] != r1 {
		l.Errorf("%d workers with sockets %v, want %d with %d and %d", n, sockets, workers, r0, r1)
	}
}
