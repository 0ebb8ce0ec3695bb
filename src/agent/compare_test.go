// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fastpath/src/state"
)

func TestComparison(t *testing.T) {
	before := cost{seconds: 30, ticks: 600, packets: 60_000, received: 90e6, forwarded: 60e6}
	after := func(f func(*cost)) cost {
		c := before
		f(&c)
		return c
	}
	for _, tt := range []struct {
		name           string
		before, after  cost
		ended, isWorse bool
		words          string
	}{
		{"the same", before, before, true, false, "1.00 times"},
		{"better", before, after(func(c *cost) { c.ticks = 300 }), true, false, "0.50 times"},
		{"a little worse", before, after(func(c *cost) { c.ticks = 740 }), true, false, "1.23 times"},
		{"worse", before, after(func(c *cost) { c.ticks = 760 }), true, true, "1.27 times"},
		{"too short", before, after(func(c *cost) { c.seconds = 9; c.ticks = 900 }), false, false, ""},
		{"too few packets", before, after(func(c *cost) { c.packets = 9999; c.ticks = 900 }), false, false, ""},
		{"too few ticks", before, after(func(c *cost) { c.ticks = 199 }), false, false, ""},
		{"never enough", before, after(func(c *cost) { c.seconds = 600; c.ticks = 100 }), true, false, ""},
		{"nothing before", cost{seconds: 30, packets: 60_000}, before, true, false, ""},
		{"more local traffic", before, after(func(c *cost) { c.received = 120e6; c.ticks = 1200 }), true, false, ""},
		{"less local traffic", before, after(func(c *cost) { c.received = 61e6; c.ticks = 1200 }), true, false, ""},
	} {
		c := comparison{running: true, before: tt.before}
		ended, isWorse, words := c.add(tt.after)
		if ended != tt.ended || isWorse != tt.isWorse || !strings.Contains(words, tt.words) || (tt.words == "") != (words == "") || c.running == ended {
			t.Errorf("%s: ended %v, worse %v, %q", tt.name, ended, isWorse, words)
		}
	}
}

// A change that makes a forwarded byte dearer is taken back, is said, and isn't
// tried again until the files are read again or hours have passed.
func TestWorseIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startMix(t)
		r.load(load{local: 2, flows: 40, packets: 2000, ticks: 10}, 5*time.Minute)
		few := load{local: 2, flows: 2, packets: 2000, ticks: 10}
		for range 300 {
			if r.load(few, time.Second); r.k.o.Table.Flowtable.Number == state.NumberIngress {
				break
			}
		}
		if hook, modes, _ := r.receive(); hook != state.HookIngress || modes != "fraglist fraglist " {
			t.Fatalf("few flows: %s, %s", hook, modes)
		}
		few.ticks = 20
		r.load(few, 2*time.Minute)
		hook, modes, reason := r.receive()
		if hook != state.HookEarly || modes != "bulk bulk " || !strings.Contains(reason, "taken back") || !strings.Contains(reason, "2.00 times") {
			t.Errorf("worse: %s, %s: %s", hook, modes, reason)
		}
		if !strings.Contains(r.log.String(), "receive modes compared") {
			t.Errorf("not logged:\n%s", r.log.String())
		}
		r.k.applied = nil
		r.load(few, time.Hour)
		if len(r.k.applied) > 0 {
			t.Errorf("tried again: %q", r.k.applied)
		}
		r.a.Reload()
		few.ticks = 10
		r.load(few, 5*time.Minute)
		if hook, _, reason := r.receive(); hook != state.HookIngress || strings.Contains(reason, "taken back") {
			t.Errorf("after the files were read again: %s: %s", hook, reason)
		}
		r.stop()
	})
}

// Traffic that moves on during a comparison is no proof of anything.
func TestTrafficMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startMix(t)
		for range 300 {
			if r.load(load{local: 2, flows: 2, packets: 2000, ticks: 10}, time.Second); r.k.o.Table.Flowtable.Number == state.NumberIngress {
				break
			}
		}
		if hook, _, _ := r.receive(); hook != state.HookIngress {
			t.Fatalf("few flows: %s", hook)
		}
		r.load(load{local: 2, flows: 40, packets: 2000, ticks: 30}, 5*time.Minute)
		hook, _, reason := r.receive()
		if hook != state.HookEarly || !strings.Contains(reason, "many flows") || strings.Contains(r.log.String(), "taken back\"=true") {
			t.Errorf("many flows: %s: %s\n%s", hook, reason, r.log.String())
		}
		r.stop()
	})
}
