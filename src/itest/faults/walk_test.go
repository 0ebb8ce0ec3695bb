// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"math/rand/v2"
	"testing"
	"time"

	"fastpath/src/itest/engine"
)

const steps = 40

// Faults in a random order, before the router has got over the last one: not one
// wrong frame, and in the end the streams go as they should.
func TestRandomWalk(t *testing.T) {
	for i, engine := range append([]string{""}, engines...) {
		t.Run(name(engine), func(t *testing.T) {
			t.Parallel()
			w := &walk{lab: newLab(t, engine), rng: rand.New(rand.NewPCG(uint64(i), 4)),
				route: gate1.String(), gateway: macG1, host: macA}
			w.at, w.other = w.a, w.b
			w.run()
			carried := 0
			for step := range steps {
				if step%2 == 0 && w.carries("udp", 3*time.Second) {
					carried++
				}
				move := moves[w.rng.IntN(len(moves))]
				t.Log(move.name)
				move.do(w)
				time.Sleep(time.Duration(w.rng.IntN(400)) * time.Millisecond)
			}
			w.settled("in the end")
			w.finish()
			t.Logf("the engine had the flow before %d of every other of %d faults", carried, steps)
			if engine != "" && carried < steps/4 {
				t.Error("that is too seldom to show anything")
			}
		})
	}
}

// walk is a lab and what is where in it now.
type walk struct {
	*lab
	rng       *rand.Rand
	at, other *wire // the host's, and the other LAN port's
	host      mac
	gateway   mac // of gate1
	route     string
	macs      byte // how many MACs were made up
}

var moves = []struct {
	name string
	do   func(w *walk)
}{
	{"kill", func(w *walk) { w.killDaemon(); w.startDaemon() }},
	{"terminate", func(w *walk) { w.stopDaemon(); w.startDaemon() }},
	{"pause", func(w *walk) { w.pause(flap) }},
	{"flush", func(w *walk) { w.flush() }},
	{"read again", func(w *walk) { w.reload(w.engine) }},
	{"flush conntrack", func(w *walk) { w.router.Run(w, "conntrack -F") }},
	{"forget neighbours", func(w *walk) { w.router.Run(w, "ip neigh flush all") }},
	{"forget where the host is", func(w *walk) { w.router.Run(w, "bridge fdb del "+text(w.host)+" dev p1 master || true") }},
	{"port down and up", func(w *walk) { w.router.Run(w, "ip link set p1 down; ip link set p1 up") }},
	{"cable of the WAN", func(w *walk) { w.g.ns.Run(w, "ip link set g0 down; sleep 0.05; ip link set g0 up") }},
	{"MTU", func(w *walk) { w.router.Run(w, "ip link set w0 mtu 1400; sleep 0.05; ip link set w0 mtu 1500") }},
	{"route", (*walk).reroute},
	{"gateway's MAC", func(w *walk) {
		w.gateway = w.newMAC()
		w.expect()
		w.g.own(gate1, w.gateway)
	}},
	{"host's MAC", func(w *walk) {
		w.host = w.newMAC()
		w.expect()
		w.at.own(hostA, w.host)
	}},
	{"move the host", func(w *walk) {
		w.at.disown(hostA)
		w.at, w.other = w.other, w.at
		w.expect()
		w.at.own(hostA, w.host)
	}},
}

func (w *walk) reroute() {
	if w.route == gate1.String() {
		w.route = gate2.String()
	} else {
		w.route = gate1.String()
	}
	w.expect()
	w.router.Run(w, "ip route replace 198.51.100.0/24 via "+w.route)
}

func (w *walk) newMAC() mac {
	w.macs++
	return mac{2, 0, 0, 0, 0xee, w.macs}
}

// expect tells the streams what is right from now on.
func (w *walk) expect() {
	gateway := w.gateway
	if w.route == gate2.String() {
		gateway = macG2
	}
	w.up.expect(form{at: w.g, frame: masqueraded(1001, gateway)})
	w.up.source(w.at, with(upFrame(hostA, 1001), func(f *engine.Frame) { f.Src = w.host }))
	in, out := downFrames(1001, gateway, hostA, w.host, 1001)
	w.down.source(w.g, in)
	w.down.expect(form{at: w.at, frame: out})
}
