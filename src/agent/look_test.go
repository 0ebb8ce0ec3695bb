// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fastpath/src/state"
)

func TestFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFake(), enabled)
		if !r.installed() {
			t.Fatalf("no table after the first look; log:\n%s", r.log.String())
		}
		if len(r.said) != 1 || !strings.HasPrefix(r.said[0], "READY=1\nSTATUS=Accelerating: ready") {
			t.Errorf("the service manager heard %q", r.said)
		}
		looks := r.k.calls["Observe"]
		r.pass(time.Second) // our own changes' event
		if n := r.k.calls["Observe"] - looks; n != 1 {
			t.Errorf("%d looks because of our own changes, want 1", n)
		}
		if len(r.k.applied) != 1 {
			t.Errorf("steps %q, want one", r.k.applied)
		}
		d := r.status()
		if d.Kernel != "6.12.0-fake" || d.Version != "1.2.3" || d.Look.Count != 2 || len(d.Plan.Steps) != 1 || len(d.Look.Problems) != 0 {
			t.Errorf("status %+v", d)
		}
		if err := r.stop(); err != nil || !r.k.cleaned {
			t.Errorf("stop: %v, cleaned %v", err, r.k.cleaned)
		}
		if last := r.said[len(r.said)-1]; last != "STOPPING=1" {
			t.Errorf("the last word is %q", last)
		}
		if _, err := r.a.Status(); !errors.Is(err, errStopping) {
			t.Errorf("a late request: %v", err)
		}
	})
}

// After kill -9 the next start finds everything in the kernel.
func TestAdoptsWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		start(t, k, enabled).kill()
		k.applied = nil
		r := start(t, k, enabled)
		if len(k.applied) != 0 || !r.installed() {
			t.Errorf("steps %q over what was there already", k.applied)
		}
		r.stop()
	})
}

// kill ends the agent without its cleanup, as kill -9.
func (r *rig) kill() {
	table, checks := r.k.o.Table, r.k.o.Checks
	r.stop()
	r.k.o.Table, r.k.o.Checks, r.k.cleaned = table, checks, false
}

func TestFullLookEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFake(), enabled)
		r.pass(time.Second)
		before := r.k.calls["Observe"]
		r.k.o.Table = nil // and no event told of it
		r.pass(59 * time.Second)
		if r.k.calls["Observe"] != before {
			t.Errorf("%d looks in 59 quiet seconds", r.k.calls["Observe"]-before)
		}
		r.pass(2 * time.Second)
		if !r.installed() {
			t.Error("the minute's look did not bring the table back")
		}
		r.stop()
	})
}

func TestSettle(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events int
		gap    time.Duration
		most   int // looks
		within time.Duration
	}{
		{"one event", 1, 0, 1, 100 * time.Millisecond},
		{"200 at once", 200, 0, 1, 100 * time.Millisecond},
		{"200 in 200 ms", 200, time.Millisecond, 1, 300 * time.Millisecond},
		{"200 in 10 s", 200, 50 * time.Millisecond, 21, 500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, newFake(), enabled)
				r.pass(time.Second)
				before, steps := r.k.calls["Observe"], len(r.k.applied)
				begin := time.Now()
				var first time.Duration // to the look
				step := func(d time.Duration) {
					r.pass(d)
					if first == 0 && r.k.calls["Observe"] > before {
						first = r.k.looked.Sub(begin)
					}
				}
				for range tt.events {
					r.k.event()
					step(tt.gap)
				}
				for range 1000 {
					step(10 * time.Millisecond)
				}
				if n := r.k.calls["Observe"] - before; n < 1 || n > tt.most {
					t.Errorf("%d looks, want 1 to %d", n, tt.most)
				}
				if first == 0 || first > tt.within {
					t.Errorf("the first look came after %v, want %v", first, tt.within)
				}
				if len(r.k.applied) != steps {
					t.Errorf("steps over an unchanged kernel: %q", r.k.applied[steps:])
				}
				r.stop()
			})
		})
	}
}

func TestEventBringsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFake(), enabled)
		r.pass(time.Second)
		r.k.o.Table = nil // fw4 flush
		r.k.event()
		r.pass(101 * time.Millisecond)
		if !r.installed() {
			t.Error("no table 101 ms after the event")
		}
		r.k.o.Table = nil
		r.a.Look() // SIGUSR1
		r.pass(time.Second)
		r.k.o.Table = nil
		r.a.Notify("iface", nil)
		r.pass(time.Second)
		if !r.installed() {
			t.Error("notify did not bring it back")
		}
		r.stop()
	})
}

func TestVanished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		k.before = func(state.Step) { // between look and apply, once
			k.o.Links = k.o.Links[:1]
			k.before = nil
		}
		r := start(t, k, enabled)
		if k.o.Table == nil || !slices.Equal(k.o.Table.Flowtable.Devices, []string{"eth0"}) {
			t.Errorf("table %+v, want eth0's at once", k.o.Table)
		}
		if d := r.status(); len(d.Look.Problems) != 0 {
			t.Errorf("a vanished device is no problem, but: %q", d.Look.Problems)
		}
		r.stop()
	})
}

func TestVanishesForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		k.always["ReplaceTable"] = errGone
		r := start(t, k, enabled)
		if n := k.calls["ReplaceTable"]; n != maxVanished {
			t.Errorf("%d tries in a row, want %d", n, maxVanished)
		}
		d := r.status()
		if len(d.Look.Problems) != 1 || d.Look.RetrySeconds != 1 {
			t.Errorf("look %+v, want the problem and a back-off", d.Look)
		}
		k.always = map[string]error{}
		r.pass(1100 * time.Millisecond)
		if d := r.status(); !r.installed() || len(d.Look.Problems) != 0 {
			t.Errorf("not over it: %+v", d.Look)
		}
		r.stop()
	})
}

// Every call fails once, and in another run always: once is not even seen,
// always is told, retried ever more slowly, and got over.
func TestEachCallFails(t *testing.T) {
	early := newEarlyFake
	for _, call := range []string{"Observe", "ReplaceTable", "SetOffloads", "AddCheck", "Watch", "Connections", "Counters"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := early()
				k.fail[call] = errors.New("Zonk: errno 5")
				r := start(t, k, enabled)
				if d := r.status(); !r.installed() || len(d.Look.Problems) != 0 || len(k.o.Checks) != 2 {
					t.Errorf("%s failed once: table %v, problems %q", call, r.installed(), d.Look.Problems)
				}
				r.stop()
			})
			synctest.Test(t, func(t *testing.T) {
				k := early()
				k.always[call] = errors.New("Zonk: errno 5")
				r := start(t, k, enabled)
				r.pass(10 * time.Minute)
				looks := k.calls["Observe"]
				r.pass(10 * time.Minute)
				// One look a minute; Observe is tried twice in each.
				if n := k.calls["Observe"] - looks; n > 21 {
					t.Errorf("%s fails always: %d looks in 10 minutes", call, n)
				}
				steps := call != "Watch" && call != "Connections" && call != "Counters"
				d := r.status()
				told := strings.Contains(strings.Join(d.Look.Problems, "; "), "Zonk")
				if steps != told || steps && d.Look.RetrySeconds != 60 {
					t.Errorf("%s fails always: look %+v", call, d.Look)
				}
				if !strings.Contains(r.log.String(), "Zonk") {
					t.Errorf("%s fails always: not in the log", call)
				}
				k.always = map[string]error{}
				r.pass(2 * time.Minute)
				if d := r.status(); !r.installed() || len(d.Look.Problems) != 0 {
					t.Errorf("%s works again: %+v", call, d.Look)
				}
				r.stop()
			})
		})
	}
}

func TestBackoff(t *testing.T) {
	var got []time.Duration
	for fails := 1; fails <= 100; fails++ {
		got = append(got, backoff(fails))
	}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}
	for i, w := range want {
		if got[i] != w*time.Second {
			t.Errorf("after %d failures %v, want %v s", i+1, got[i], w)
		}
	}
	if got[99] != time.Minute {
		t.Errorf("after 100 failures %v", got[99])
	}
}

func TestEventsDontBreakBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		k.always["ReplaceTable"] = errors.New("no")
		r := start(t, k, enabled)
		r.pass(5 * time.Minute)
		before := k.calls["Observe"]
		for range 1000 {
			k.event()
			r.pass(10 * time.Millisecond)
		}
		if n := k.calls["Observe"] - before; n > 11 {
			t.Errorf("%d looks in 10 s of events while a step fails", n)
		}
		r.stop()
	})
}
