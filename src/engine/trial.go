// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math"
	"slices"
	"time"

	"fastpath/src/state"
)

// An engine has to earn its place: where a packet costs more CPU time with it
// than by the best path that its ports have without it, it steps aside. This
// file decides, from samples; measure.go takes them.
//
//	proving ──10 s, 10,000 packets──▶ paused ──the same──▶ earned, or not
//	   ▲                                │
//	   └────── too little traffic ──────┘
//
// With the engine is measured first: it runs from the start, so light traffic,
// which can't be measured, has it, and only an engine that has been measured
// is ever paused. The pause is a state.Refusal like every other: the plan takes
// the engine and its rules away and what the ports have without it, flowtable,
// GRO and all, comes back. That is the comparison that counts; to leave the
// program attached, or the rules in place, would measure neither path.
//
// All ports with one kind of engine are tried together, because a flow has two.

const (
	trialTime    = 10 * time.Second
	trialPackets = 10_000
	// settleTime passes before a measurement begins: flows have to come over.
	settleTime = 3 * time.Second
	// windowMost is how old the beginning of a measurement may get. With less
	// traffic than trialPackets in that time there is nothing to win.
	windowMost = time.Minute
	// retryTime passes after a pause in which the traffic ended, and after a
	// verdict before a port that comes again is tried again.
	retryTime = 10 * time.Minute
	// hysteresis is what an engine may cost more: about what two measurements of
	// the same differ by.
	hysteresis = 0.05
	// likeness is how much the packets' rate may change between the two: a
	// packet costs more when there are few.
	likeness = 2
	// userHZ is the unit of /proc/stat, USER_HZ of all our architectures.
	userHZ = 100
)

// sample is what the machine had done at some moment.
type sample struct {
	at      time.Time
	cpu     time.Duration // softirq, irq and system of all CPUs, and our own user time
	packets uint64        // received by the engine's ports
}

// cost is what happened between two samples.
type cost struct {
	time, cpu time.Duration
	packets   uint64
}

func (s sample) since(from sample) cost {
	return cost{s.at.Sub(from.at), s.cpu - from.cpu, s.packets - min(s.packets, from.packets)}
}

// enough: it can be judged.
func (c cost) enough() bool { return c.time >= trialTime && c.packets >= trialPackets }

// perPacket is in ns.
func (c cost) perPacket() float64 { return float64(c.cpu) / float64(max(c.packets, 1)) }

// rate is in packets a second.
func (c cost) rate() float64 { return float64(c.packets) / max(c.time.Seconds(), 1e-3) }

// noise is the relative error of what the kernel counts in ticks: N of them
// are known to √N. A clock that is finer than that errs less.
func (c cost) noise() float64 {
	ticks := max(c.cpu.Seconds()*userHZ, 1)
	return 1 / math.Sqrt(ticks)
}

// alike: the traffic was much the same, so the two can be compared.
func alike(a, b cost) bool {
	x, y := a.rate(), b.rate()
	return x <= likeness*y && y <= likeness*x
}

// earns: the engine costs at most as much as the path without it, as far as can
// be told: beyond the hysteresis the difference must be twice its own error.
func earns(with, without cost) bool {
	margin := hysteresis + 2*math.Hypot(with.noise(), without.noise())
	return with.perPacket() <= without.perPacket()*(1+margin)
}

// phase is how far a trial has come.
type phase string

const (
	proving phase = "proving" // the engine runs, and is measured when there is traffic
	paused  phase = "paused"  // the path without it is measured
	earned  phase = "earned"
	failed  phase = "failed"
)

// trial is one kind of engine's.
type trial struct {
	phase   phase
	ports   []entrant // whose packets count
	from    sample    // where the measurement began; the zero sample: not yet
	after   time.Time // of the next sample
	with    cost
	without cost
	result  string // in words
}

// notMeasured is the result as long as there is none.
const notMeasured = "not measured yet whether it costs less CPU time than the path without it"

// entrant is a port whose engine is tried.
type entrant struct {
	link state.Link
	want state.Engine
}

// newTrial begins when the engine does.
func newTrial(now time.Time) *trial {
	return &trial{phase: proving, after: now.Add(settleTime), result: notMeasured}
}

// open: samples are wanted.
func (t *trial) open() bool { return t.phase == proving || t.phase == paused }

// due: a sample at now would tell something.
func (t *trial) due(now time.Time) bool { return t.open() && !now.Before(t.after) }

// add takes a sample and goes on; it tells whether the phase has changed.
func (t *trial) add(s sample) bool {
	t.after = s.at.Add(trialTime)
	if (t.from == sample{}) {
		t.from = s
		return false
	}
	c := s.since(t.from)
	over := c.time >= windowMost // or flows came again after a long rest
	switch {
	case t.phase == proving && c.enough() && !over:
		t.with = c
		t.enter(paused, s.at.Add(settleTime))
	case t.phase == proving && over:
		t.from = s
		return false
	case t.phase == proving:
		return false
	case c.enough() && alike(c, t.with):
		t.without = c
		t.enter(failed, s.at.Add(retryTime))
		if earns(t.with, t.without) {
			t.phase = earned
		}
	case c.enough() || over:
		t.enter(proving, s.at.Add(retryTime))
	default:
		return false
	}
	return true
}

// stands: the verdict against the engine of this port is so young that it holds
// also when the port is made anew. A port that does that often would else have
// all others tried with it, each time.
func (t *trial) stands(name string, want state.Engine, now time.Time) bool {
	return t != nil && t.phase == failed && now.Before(t.after) &&
		slices.ContainsFunc(t.ports, func(e entrant) bool { return e.link.Name == name && e.want == want })
}

func (t *trial) enter(p phase, after time.Time) {
	t.phase, t.from, t.after = p, sample{}, after
}

// verdict is what was measured, for the owner; path is what carried the flows
// without the engine.
func (t *trial) verdict(path string) string {
	return fmt.Sprintf("%.0f ns of CPU a packet against %.0f by %s (measured over %d and %d packets, %.0f and %.0f s)",
		t.with.perPacket(), t.without.perPacket(), path, t.with.packets, t.without.packets,
		t.with.time.Seconds(), t.without.time.Seconds())
}
