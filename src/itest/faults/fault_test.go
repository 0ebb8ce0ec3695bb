// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"
	"time"

	"fastpath/src/state"
)

// limit is the longest that a fault may interrupt a stream for beyond what it
// does without fastpath. One attempt of three has to keep it: the others are a
// busy machine's. What must never happen (a wrong frame, a flow that doesn't come
// back, a daemon that dies) fails at the first attempt.
const (
	limit    = 250 * time.Millisecond
	attempts = 3
	after    = 1200 * time.Millisecond // how long the streams are watched after a fault
)

// fault is something that happens to a router while both streams flow. Without a
// daemon, what do does to it does nothing.
type fault struct {
	name   string
	before func(l *lab) // before the streams begin
	do     func(l *lab)
}

var engines = []string{state.EngineXDP, state.EngineAFXDP}

func TestFault(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.compare(t)
		})
	}
}

// compare measures the gaps with and without each engine.
func (f fault) compare(t *testing.T) {
	left := engines
	for range attempts {
		without := f.measure(t, "")
		var late []string
		for _, engine := range left {
			with := f.measure(t, engine)
			ours := max(with.up-without.up, with.down-without.down)
			t.Logf("%s: gap up %v, down %v; without fastpath %v, %v", engine, ms(with.up), ms(with.down), ms(without.up), ms(without.down))
			if ours > limit {
				late = append(late, engine)
			}
		}
		if left = late; left == nil || t.Failed() {
			return
		}
	}
	t.Errorf("gaps more than %v longer than without fastpath, %d times: %v", limit, attempts, left)
}

type gaps struct{ up, down time.Duration }

// measure does the fault once in a lab of its own.
func (f fault) measure(t *testing.T, engine string) (g gaps) {
	t.Run(name(engine), func(t *testing.T) {
		l := newLab(t, engine)
		if f.before != nil {
			f.before(l)
		}
		l.run()
		begin := time.Now()
		f.do(l)
		time.Sleep(after)
		g = gaps{l.up.gap(begin), l.down.gap(begin)}
		l.settled("after the fault")
		l.finish()
	})
	return g
}

// name is a subtest's.
func name(engine string) string {
	if engine == "" {
		return "without"
	}
	return engine
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
