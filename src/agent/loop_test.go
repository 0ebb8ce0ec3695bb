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
	"fastpath/src/status"
)

const broken = "config fastpath 'main'\n\toption enabled '1'\n\toption hook 'soon'\n\toption colour 'red'\n"

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFake(), enabled)
		if got := r.status().Config.InForce; got != status.AsWritten {
			t.Errorf("in force: %s", got)
		}
		r.write(broken)
		r.a.Reload()
		r.pass(0)
		d := r.status()
		if d.Config.InForce != status.LastGood || len(d.Config.Problems) != 2 || !r.installed() {
			t.Errorf("after a broken reload: %+v, table %v", d.Config, r.installed())
		}
		for i, want := range []string{"fastpath:3: ", "fastpath:4: "} {
			if p := d.Config.Problems; len(p) == 2 && (!strings.HasPrefix(p[i], r.dir+"/"+want) || !strings.Contains(r.log.String(), want)) {
				t.Errorf("problem %q, want file:line and reason, in the log too", p[i])
			}
		}
		r.write(strings.Replace(enabled, "enabled '1'", "enabled '0'", 1))
		r.a.Reload()
		r.pass(0)
		if d := r.status(); d.Config.InForce != status.AsWritten || len(d.Config.Problems) != 0 || r.k.o.Table != nil || d.Report.Enabled {
			t.Errorf("after switching off: %+v, table %+v", d.Config, r.k.o.Table)
		}
		r.stop()
	})
}

func TestReloadTellsManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFake(), enabled)
		r.said = nil
		r.a.Reload()
		r.pass(0)
		if len(r.said) != 2 || !strings.HasPrefix(r.said[1], "READY=1\nSTATUS=") {
			t.Fatalf("said %q, want RELOADING and READY", r.said)
		}
		lines := strings.Split(r.said[0], "\n")
		if !slices.Contains(lines, "RELOADING=1") || !strings.Contains(r.said[0], "MONOTONIC_USEC=") {
			t.Errorf("said %q", r.said[0])
		}
		r.stop()
	})
}

// A first start has no last good configuration.
func TestStartWithBrokenConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := enabled + "config port\n\toption device 'eth2'\n\toption speed '9'\n"
		r := start(t, newFake(), text)
		d := r.status()
		if d.Config.InForce != status.Lenient || len(d.Config.Problems) != 1 || !r.installed() {
			t.Errorf("%+v, table %v", d.Config, r.installed())
		}
		r.write(enabled)
		r.a.Reload()
		r.pass(0)
		if d := r.status(); d.Config.InForce != status.AsWritten || len(d.Config.Problems) != 0 {
			t.Errorf("after the repair: %+v", d.Config)
		}
		r.stop()
	})
}

func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		r := start(t, k, enabled, func(o *Options) { o.Watchdog = 30 * time.Second })
		count := func() (n int) {
			for _, s := range r.said {
				if s == "WATCHDOG=1" {
					n++
				}
			}
			return n
		}
		r.pass(5 * time.Minute)
		if n := count(); n < 20 || n > 22 {
			t.Errorf("%d signs of life in 5 minutes, want one each 15 s", n)
		}
		// The loop hangs in a kernel call: no sign of life may come from elsewhere.
		k.o.Table = nil
		k.before = func(state.Step) {
			k.before = nil
			k.mu.Unlock()
			time.Sleep(10 * time.Minute)
			k.mu.Lock()
		}
		k.event()
		r.pass(time.Second)
		before := count()
		r.pass(9 * time.Minute)
		if n := count() - before; n != 0 {
			t.Errorf("%d signs of life of a loop that hangs", n)
		}
		r.pass(2 * time.Minute)
		if count() == before {
			t.Error("the loop goes on, but gives no sign of life")
		}
		r.stop()
	})
}

// A look whose steps take seconds each, as where other programs hold a port's
// queues, is no loop that hangs.
func TestWatchdogWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		begin, last, most := time.Now(), time.Now(), time.Duration(0)
		r := start(t, k, enabled, func(o *Options) {
			o.Watchdog = 30 * time.Second
			o.SdNotify = func(s string) {
				if s == "WATCHDOG=1" {
					most, last = max(most, time.Since(last)), time.Now()
				}
			}
		})
		r.pass(time.Second)
		k.before = func(state.Step) {
			k.mu.Unlock()
			time.Sleep(14 * time.Second)
			k.mu.Lock()
		}
		k.o.Table, k.o.Checks = nil, []string{"eth7", "eth8", "eth9"} // four steps
		k.event()
		r.pass(5 * time.Minute)
		if most = max(most, time.Since(last)); most >= 30*time.Second || last.Equal(begin) {
			t.Errorf("no sign of life for %v", most)
		}
		r.stop()
	})
}

func TestNoWatchdogUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFake(), enabled)
		r.pass(10 * time.Minute)
		if slices.Contains(r.said, "WATCHDOG=1") {
			t.Error("a sign of life that nobody asked for")
		}
		// STATUS= comes when it is new, not with each look.
		if len(r.said) != 1 {
			t.Errorf("said %q", r.said)
		}
		r.stop()
	})
}

func TestPanicCleansUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		r := start(t, k, enabled)
		k.o.Table = nil
		k.before = func(state.Step) { panic("a bug") }
		k.event()
		err := r.ended()
		if err == nil || !strings.Contains(err.Error(), "panic: a bug") || !k.cleaned {
			t.Errorf("error %v, cleaned %v", err, k.cleaned)
		}
		if _, err := r.a.Status(); !errors.Is(err, errStopping) {
			t.Errorf("a request after it: %v", err)
		}
		r.cancel()
	})
}

func TestFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		k.always["Observe"] = errNever
		r := start(t, k, enabled)
		if err := r.ended(); !errors.Is(err, errNever) || k.calls["Observe"] != 1 || k.calls["Cleanup"] != 0 {
			t.Errorf("error %v after %d looks and %d cleanups", err, k.calls["Observe"], k.calls["Cleanup"])
		}
		r.cancel()
	})
}

func TestStopFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		r := start(t, k, enabled)
		k.fail["Cleanup"] = errors.New("once")
		if err := r.stop(); err != nil || !k.cleaned {
			t.Errorf("one failure must be tried again: %v", err)
		}
		k = newFake()
		r = start(t, k, enabled)
		k.always["Cleanup"] = errors.New("always")
		if err := r.stop(); err == nil {
			t.Error("a cleanup that failed must show")
		}
	})
}

// A watch that ends is begun anew.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		r := start(t, k, enabled)
		r.pass(time.Second)
		old := k.events
		k.events = make(chan struct{}, 1)
		close(old)
		r.pass(time.Second)
		k.o.Table = nil
		k.event()
		r.pass(time.Second)
		if !r.installed() || k.calls["Watch"] != 2 {
			t.Errorf("table %v, %d watches", r.installed(), k.calls["Watch"])
		}
		r.stop()
	})
}

func TestFlowsOfOthersAreNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		k.flows = []state.Flow{{Engine: state.EngineFlowtable, Proto: "tcp"}}
		r := start(t, k, enabled)
		if flows, err := r.flows(); err != nil || len(flows) != 1 {
			t.Errorf("ours: %v, %v", flows, err)
		}
		k.always["Flows"] = errors.New("no")
		if _, err := r.flows(); err == nil {
			t.Error("the error is lost")
		}
		delete(k.always, "Flows")
		r.write(strings.Replace(enabled, "enabled '1'", "enabled '0'", 1))
		r.a.Reload()
		r.pass(0)
		if flows, err := r.flows(); err != nil || len(flows) != 0 {
			t.Errorf("without a table of ours: %v, %v", flows, err)
		}
		r.stop()
	})
}

func TestStepsThatRelyOnOthers(t *testing.T) {
	table := state.ReplaceTable{Table: state.Table{}}
	early := state.ReplaceTable{Table: state.Table{Flowtable: state.Flowtable{Number: 2, Devices: []string{"a"}}}}
	more := state.AddDevices{Flowtable: early.Table.Flowtable, Devices: []string{"b"}}
	set := func(p string) state.Step { return state.SetOffloads{Port: p} }
	begin := func(p string) state.Step { return state.StartEngine{Port: p} }
	end := state.StopEngine{Port: "a"}
	for _, tt := range []struct {
		name  string
		steps []state.Step
		fails string // the call that fails
		done  []int
	}{
		{"a chain is alone", []state.Step{state.AddCheck{Device: "a"}, table, set("a")}, "AddCheck", []int{1, 2}},
		{"no early table with GRO on", []state.Step{set("a"), state.AddCheck{Device: "a"}, early}, "SetOffloads", []int{1}},
		{"no early device with GRO on", []state.Step{set("b"), more, state.ReplaceRules{}}, "SetOffloads", nil},
		{"a table that doesn't rely on it", []state.Step{set("a"), table, more}, "SetOffloads", []int{1, 2}},
		{"no GRO before the table has left", []state.Step{table, state.RestoreOffloads{Port: "a"}}, "ReplaceTable", nil},
		{"ports are alone", []state.Step{table, set("a"), state.RestoreOffloads{Port: "b"}}, "SetOffloads", []int{0, 2}},
		{"table steps build on each other", []state.Step{state.RemoveDevices{Devices: []string{"a"}}, state.ReplaceRules{}, state.RemoveCheck{Device: "a"}}, "RemoveDevices", []int{2}},
		{"nothing waits for an engine", []state.Step{begin("a"), table, set("a")}, "StartEngine", []int{1, 2}},
		{"no engine without its offloads", []state.Step{set("a"), end, begin("a"), begin("b")}, "SetOffloads", []int{1, 3}},
		{"no offloads below an engine that stays", []state.Step{end, table, state.RestoreOffloads{Port: "a"}, state.RestoreOffloads{Port: "b"}}, "StopEngine", []int{1, 3}},
		{"no second engine on a port", []state.Step{end, begin("a"), begin("b")}, "StopEngine", []int{2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newFake()
			k.o.Links = append(k.o.Links, state.Link{Name: "a"}, state.Link{Name: "b"})
			k.o.Table, k.o.Checks = &state.Table{}, []string{"a"}
			k.always[tt.fails] = errors.New("no")
			a := New(Options{Kernel: k, Log: discard, Vanished: func(error) bool { return false }})
			got := a.apply(tt.steps)
			var want []string
			for _, i := range tt.done {
				want = append(want, tt.steps[i].String())
			}
			if !slices.Equal(k.applied, want) {
				t.Errorf("done %q, want %q", k.applied, want)
			}
			if len(got.problems) != 1 || len(got.steps) != len(tt.steps) {
				t.Errorf("problems %q, steps %+v", got.problems, got.steps)
			}
		})
	}
}

// What is done and undone again and again must not become a quick loop.
func TestUndoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		r := start(t, k, enabled)
		k.o.Table = nil
		k.forgets = true
		k.event()
		r.pass(5 * time.Minute)
		before := k.calls["Observe"]
		r.pass(10 * time.Minute)
		if n := k.calls["Observe"] - before; n > 11 {
			t.Errorf("%d looks in 10 minutes", n)
		}
		if d := r.status(); len(d.Look.Problems) != 1 || !strings.Contains(d.Look.Problems[0], "found undone") {
			t.Errorf("problems %q", d.Look.Problems)
		}
		r.stop()
	})
}
