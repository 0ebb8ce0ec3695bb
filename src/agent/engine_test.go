// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fastpath/src/state"
	"fastpath/src/status"
)

// withEngines asks for engine xdp on both ports.
var withEngines = strings.ReplaceAll(enabled, "option device", "option engine 'xdp'\n\toption device")

func TestEnginesStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFake(), withEngines)
		d := r.status()
		if len(r.k.o.Engines) != 2 || d.Engines["eth0"].Kind != state.EngineXDP || d.Report.Ports[0].Engine != state.EngineXDP || !r.installed() {
			t.Errorf("engines %+v, document %+v, table %v", r.k.o.Engines, d.Engines, r.installed())
		}
		if !strings.Contains(r.said[0], "engine xdp on eth0, eth1") {
			t.Errorf("ready before it knew: %q", r.said[0])
		}
		if d.Look.Steps == 0 || d.Look.FailedSteps != 0 {
			t.Errorf("%d steps, %d failed", d.Look.Steps, d.Look.FailedSteps)
		}
		steps := len(r.k.applied)
		r.pass(10 * time.Minute)
		if len(r.k.applied) != steps {
			t.Errorf("steps over an unchanged kernel: %q", r.k.applied[steps:])
		}
		r.write(enabled)
		r.a.Reload()
		r.pass(0)
		if d := r.status(); len(r.k.o.Engines) != 0 || len(d.Engines) != 0 || !r.installed() {
			t.Errorf("without the option: %+v, table %v", r.k.o.Engines, r.installed())
		}
		r.stop()
	})
}

// A refusal shows at once, and isn't tried again and again.
func TestEngineRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		k.refuse = map[string]string{"eth1": "the driver can't"}
		r := start(t, k, withEngines)
		d := r.status()
		if d.Refused["eth1"].Reason != "the driver can't" || len(d.Look.Problems) != 0 || !r.installed() {
			t.Errorf("refused %+v, problems %q", d.Refused, d.Look.Problems)
		}
		for _, p := range d.Report.Ports {
			if p.Name == "eth1" && (p.Engine != state.EngineFlowtable || !strings.Contains(p.EngineReason, "the driver can't")) {
				t.Errorf("the report says %q (%s)", p.Engine, p.EngineReason)
			}
		}
		tries := k.calls["StartEngine"]
		r.pass(10 * time.Minute)
		if n := k.calls["StartEngine"]; n != tries {
			t.Errorf("%d tries more of what was refused", n-tries)
		}
		r.stop()
	})
}

func TestEngineFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		k.always["StartEngine"] = errors.New("Zonk")
		r := start(t, k, withEngines)
		d := r.status()
		if !r.installed() || !strings.Contains(strings.Join(d.Look.Problems, "; "), "Zonk") || d.Look.FailedSteps != 2 {
			t.Errorf("table %v, look %+v", r.installed(), d.Look)
		}
		k.always = map[string]error{}
		r.pass(2 * time.Second)
		if d := r.status(); len(k.o.Engines) != 2 || len(d.Look.Problems) != 0 {
			t.Errorf("it works again: engines %+v, look %+v", k.o.Engines, d.Look)
		}
		r.stop()
	})
}

// Engines are sampled without a flowtable too, and no more than one is.
func TestEnginesWithoutFlowtable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		k.flows = []state.Flow{{Engine: state.EngineFlowtable, Proto: "tcp"}, {Engine: state.EngineXDP, Proto: "udp"}}
		r := start(t, k, strings.Replace(withEngines, "enabled '1'", "enabled '1'\n\toption hook 'off'", 1))
		if d := r.status(); d.Report.Hook != state.HookOff || len(d.Engines) != 2 {
			t.Fatalf("hook %s, engines %+v", d.Report.Hook, d.Engines)
		}
		count := func(n uint64) {
			k.counters = state.Counters{EngineFlows: 7, SlowPackets: n / 99,
				Ports:   map[string]state.PortCounters{"eth0": {RxPackets: 2 * n}, "br-lan": {RxPackets: 5}},
				Engines: map[string]state.EngineCounters{"eth0": {Packets: n, Bytes: 100 * n}}}
		}
		count(0)
		r.pass(time.Minute)
		count(990)
		r.pass(time.Minute)
		d := r.status()
		if s := d.Traffic.SinceStart; s.Engines != (status.Volume{Packets: 990, Bytes: 99_000}) || s.Percent == nil || *s.Percent != 99 {
			t.Errorf("traffic %+v", s)
		}
		if p := d.Traffic.Ports; len(p) != 1 || p[0].Name != "eth0" || d.Traffic.EngineFlows != 7 {
			t.Errorf("ports %+v, %d flows", p, d.Traffic.EngineFlows)
		}
		if flows, err := r.flows(); err != nil || len(flows) != 1 || flows[0].Engine != state.EngineXDP {
			t.Errorf("flows %+v, %v: want the engine's only", flows, err)
		}
		if k.calls["Connections"] != 0 {
			t.Error("another's flowtable was sampled")
		}
		before := k.calls["Counters"]
		r.pass(10 * time.Minute)
		if n := k.calls["Counters"] - before; n < 9 || n > 11 {
			t.Errorf("%d samples in 10 idle minutes, want one a minute", n)
		}
		r.stop()
	})
}

// What an engine forwards never reaches a hook: it must not speak for
// early_ingress. What it passes on does.
func TestCheckLeavesEnginesOut(t *testing.T) {
	delta := status.Delta{Counted: true, Known: status.Volume{Packets: 2000},
		Ports:   map[string]state.PortCounters{"eth0": {RxPackets: 90_000, Ingress: 2000}},
		Engines: map[string]state.EngineCounters{"eth0": {Packets: 88_000, Passed: map[string]uint64{"no-flow": 1900, "tcp-flags": 100}}}}
	for _, early := range []bool{false, true} {
		want := status.Refuted
		if early {
			want = status.Confirmed
			delta.Ports["eth0"] = state.PortCounters{RxPackets: 90_000, Ingress: 0}
		}
		var c check
		c.use(2)
		c.restart()
		table := &carried{number: 2, devices: []string{"eth0"}, checks: []string{"eth0"}}
		for range 2 {
			c.add(delta, 1, table)
		}
		if c.result.Verdict != want {
			t.Errorf("early %v: %+v", early, c.result)
		}
	}
}

func TestRecommendation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		for i := range k.o.Links {
			k.o.Links[i].XDPFeatures = 6 // redirect, transmit
		}
		r := start(t, k, enabled)
		r.a.stat = filepath.Join(r.dir, "stat")
		second := func(n uint64, softirq uint64) {
			line := fmt.Sprintf("cpu0 0 0 0 %d 0 0 %d 0 0 0\n", n*100-softirq, softirq)
			if err := os.WriteFile(r.a.stat, []byte(line), 0o600); err != nil {
				t.Fatal(err)
			}
			k.flows = []state.Flow{{Engine: state.EngineFlowtable, Proto: "tcp", Counted: true, Orig: state.Tuple{Packets: n * 1000}}}
			k.counters.Ports = map[string]state.PortCounters{"eth0": {RxPackets: n * 1000}}
			r.pass(3 * time.Second)
		}
		second(1, 0)
		if d := r.status(); len(d.Recommendations) != 0 {
			t.Errorf("after one sample: %q", d.Recommendations)
		}
		second(2, 60)
		if d := r.status(); len(d.Recommendations) != 1 || !strings.Contains(d.Recommendations[0], "60 %") || !strings.Contains(d.Recommendations[0], "eth0, eth1") {
			t.Errorf("recommended %q", d.Recommendations)
		}
		second(3, 65)
		if d := r.status(); len(d.Recommendations) != 0 {
			t.Errorf("with little to do: %q", d.Recommendations)
		}
		r.stop()
	})
}

func (r *rig) flush(match func(state.Flow) bool) (f status.Flushed, err error) {
	r.k.meanwhile(func() { f, err = r.a.Flush(match) })
	return f, err
}

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		fill := func() {
			k.flows = []state.Flow{{Engine: state.EngineFlowtable, Proto: "tcp"}, {Engine: state.EngineXDP, Proto: "tcp"}, {Engine: state.EngineXDP, Proto: "udp"}}
		}
		fill()
		r := start(t, k, withEngines)
		k.applied = nil
		udp := func(f state.Flow) bool { return f.Proto == "udp" }
		if f, err := r.flush(udp); err != nil || f != (status.Flushed{Engines: 1, Filtered: true}) || len(k.applied) != 0 {
			t.Errorf("with a filter: %+v, %v, steps %q", f, err, k.applied)
		}
		fill()
		want := state.ReplaceTable{Table: *k.o.Table}.String()
		if f, err := r.flush(nil); err != nil || f != (status.Flushed{Engines: 2, Flowtable: 1}) || !slices.Equal(k.applied, []string{want}) {
			t.Errorf("everything: %+v, %v, steps %q", f, err, k.applied)
		}
		r.pass(time.Second)
		if len(k.applied) != 1 {
			t.Errorf("the look after it did %q", k.applied[1:])
		}
		for _, call := range []string{"Flush", "Connections", "Observe", "ReplaceTable"} {
			k.always[call] = errors.New("Zonk")
			if _, err := r.flush(nil); err == nil || !strings.Contains(err.Error(), "Zonk") {
				t.Errorf("%s fails: %v", call, err)
			}
			delete(k.always, call)
			r.pass(2 * time.Second)
		}
		k.o.Table = nil
		if _, err := r.flush(nil); err == nil || !strings.Contains(err.Error(), "gone") {
			t.Errorf("without the table: %v", err)
		}
		r.stop()
		if _, err := r.flush(nil); !errors.Is(err, errStopping) {
			t.Errorf("too late: %v", err)
		}
	})
}
