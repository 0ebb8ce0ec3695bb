// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"time"

	"fastpath/src/state"
	"fastpath/src/status"
)

// When the traffic has moved the ports' receive modes, what a forwarded byte
// costs is compared with what it did before: the same traffic, as it was while
// the mix had to hold, by the old way.
const (
	compareSeconds = 10.0
	comparePackets = 10_000
	// compareTicks is how many clock ticks (USER_HZ, 100 a second) softirqs must
	// have taken on each side. Most kernels don't measure that time but look each
	// tick what a CPU is doing: 200 looks err by 7 %, and the quotient of two
	// such numbers by 10 %.
	compareTicks = 200
	// worse is the quotient from which a change is taken back: 2.5 times that error.
	worse = 1.25
	// alike bounds how much the share of forwarded bytes may have changed: the
	// softirqs' time goes into local traffic as well.
	alike = 1.25
	// compareLongest ends a comparison on a router with too little to do for one.
	compareLongest = 600.0
	refusedFor     = 6 * time.Hour
)

// cost is the work of a span of time.
type cost struct {
	seconds             float64
	ticks               uint64 // in softirqs, all CPUs
	packets             uint64 // received
	received, forwarded uint64 // bytes
}

func costOf(d status.Delta, s status.Share) cost {
	c := cost{seconds: d.Seconds, ticks: d.Softirq, forwarded: s.Accelerated.Bytes + s.Slow.Bytes}
	for _, p := range d.Ports {
		c.packets += p.RxPackets
		c.received += p.RxBytes
	}
	return c
}

func (c cost) plus(o cost) cost {
	return cost{c.seconds + o.seconds, c.ticks + o.ticks, c.packets + o.packets, c.received + o.received, c.forwarded + o.forwarded}
}

// enough for a comparison.
func (c cost) enough() bool {
	return c.seconds >= compareSeconds && c.packets >= comparePackets && c.ticks >= compareTicks && c.forwarded > 0
}

func (c cost) perByte() float64 { return float64(c.ticks) / float64(max(c.forwarded, 1)) }

// share is how much of what came in was forwarded.
func (c cost) share() float64 { return float64(c.forwarded) / float64(max(c.received, 1)) }

// comparison is one before and after. Its zero value isn't running.
type comparison struct {
	running       bool
	before, after cost
	was           map[string]state.Mix // the ports that moved, as they were
}

// add weighs one more interval and tells whether the comparison has ended; words
// are "" if it ended without a result.
func (c *comparison) add(more cost) (ended, isWorse bool, words string) {
	if !c.running {
		return false, false, ""
	}
	c.after = c.after.plus(more)
	if !c.before.enough() {
		c.running = false // nothing to compare with
		return true, false, ""
	}
	if !c.after.enough() {
		c.running = c.after.seconds < compareLongest
		return !c.running, false, ""
	}
	c.running = false
	if change := c.after.share() / c.before.share(); change > alike || change < 1/alike {
		return true, false, ""
	}
	quotient := c.after.perByte() / c.before.perByte()
	words = fmt.Sprintf("by measure a forwarded byte took %.2f times the softirq CPU that it took before the change", quotient)
	return true, quotient > worse, words
}

// turn is a change of the mix: the settled ports as they were, and the cost since
// they first seemed to be another.
type turn struct {
	was    map[string]state.Mix
	before cost
}

// weigh feeds an interval to the comparison and to the mix.
func (a *Agent) weigh(d status.Delta) error {
	share, blind, was := a.meter.Traffic().Interval, a.mix.blind, a.mix.observed()
	settled, err := a.mix.add(d, share, a.seen.Links, a.Kernel.Place)
	if err != nil {
		return err
	}
	if !blind {
		a.conclude(d, share)
	}
	if len(settled) == 0 {
		return nil
	}
	a.turn = &turn{map[string]state.Mix{}, a.mix.run}
	for _, name := range settled {
		a.turn.was[name] = was[name]
		a.Log.Info("the traffic is another", "port", name, "kind", a.mix.ports[name].Kind, "flows", a.mix.ports[name].Flows)
	}
	a.soon(time.Now())
	return nil
}

// follow begins a comparison if the look has acted on a turn.
func (a *Agent) follow(steps []state.Step, done applied) {
	turn := a.turn
	a.turn = nil
	if turn == nil || done.failed > 0 || !slices.ContainsFunc(steps, changesReceive) {
		return
	}
	a.compare = comparison{running: true, before: turn.before, was: turn.was}
}

func changesReceive(s state.Step) bool {
	switch s.(type) {
	case state.SetOffloads, state.RestoreOffloads, state.ReplaceTable:
		return true
	}
	return false
}

// conclude feeds the comparison, unless the traffic seems to be another again.
// What was worse is taken back.
func (a *Agent) conclude(d status.Delta, s status.Share) {
	if a.mix.open() {
		a.compare.running = false
	}
	ended, isWorse, words := a.compare.add(costOf(d, s))
	if !ended || words == "" {
		return
	}
	now := time.Now()
	for name, was := range a.compare.was {
		p := a.mix.ports[name]
		if p == nil || p.Kind == was.Kind {
			continue
		}
		if p.Compared = words; !isWorse {
			continue
		}
		tried := p.Kind
		p.Mix = was
		p.Compared = fmt.Sprintf("%s was tried, but %s: taken back, not again within %.0f h unless port or configuration change",
			kindWords[tried], words, refusedFor.Hours())
		p.refused[tried] = now.Add(refusedFor)
	}
	a.Log.Info("receive modes compared", "result", words, "taken back", isWorse)
	a.soon(now)
}

// kindWords is what a kind of mix leads to.
var kindWords = map[state.MixKind]string{
	state.MixMany:  "bulks for many flows",
	state.MixFew:   "GRO for few flows",
	state.MixLocal: "GRO for local traffic",
}
