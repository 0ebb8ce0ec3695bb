// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fastpath/src/state"
	"fastpath/src/status"
)

func newEarlyFake() *fake {
	k := newFake()
	k.o.Hooks.Early = state.Ability{OK: true}
	return k
}

// mix is traffic as it really is, from which the counters follow.
type mix struct {
	early  bool   // the hook is what it promises; else it is an ordinary one
	blind  bool   // the hook takes no packet at all: all goes slow
	accel  uint64 // packets of flows that the fast path may take
	slow   uint64 // packets of the same flows that it leaves
	others uint64 // established packets of others at chain forward
	local  uint64 // all else: to the router itself, bridged, new connections
	merge  uint64 // how many frames GRO joins to one skb; 0 and 1: none
	lost   uint64 // frames that the driver counts and drops
	lag    uint64 // frames that the driver has not counted yet
	hidden bool   // option counters '0'
}

// evidence counts as the kernel would.
func (m mix) evidence() evidence {
	if m.blind {
		m.slow, m.accel = m.slow+m.accel, 0
	}
	merge := max(m.merge, 1)
	e := evidence{carried: true, counted: !m.hidden, exact: merge == 1}
	all := m.accel + m.slow + m.others + m.local
	e.ingress = all
	if m.early {
		e.ingress -= m.accel
	}
	e.slow = m.slow + m.others
	e.rx = all*merge + m.lost - m.lag
	if !m.hidden {
		e.flows = m.accel + m.slow
	}
	return e
}

func TestVerdict(t *testing.T) {
	const yes, no, open = status.Confirmed, status.Refuted, status.Unknown
	for _, tt := range []struct {
		name string
		mix  mix
		want status.Verdict
	}{
		{"no packets", mix{early: true}, open},
		{"early, few", mix{early: true, accel: 99, slow: 4}, open},
		{"early", mix{early: true, accel: 110, slow: 4}, yes},
		{"early, many", mix{early: true, accel: 1e9, slow: 1e4, local: 1e5}, yes},
		{"early, half is other traffic", mix{early: true, accel: 2000, slow: 4, local: 2000}, yes},
		{"early, most is other traffic", mix{early: true, accel: 2000, slow: 4, local: 1e6}, yes},
		{"early, most is other traffic, few accelerated", mix{early: true, accel: 500, slow: 4, local: 1e6}, open},
		{"early, slow traffic of others", mix{early: true, accel: 4000, slow: 4, others: 1000}, yes},
		{"early, more slow traffic of others", mix{early: true, accel: 4000, slow: 4, others: 1e6}, open},
		{"early, GRO on after all", mix{early: true, accel: 2000, merge: 40}, yes},
		{"early, GRO on and other traffic", mix{early: true, accel: 2000, merge: 40, local: 4000}, open},
		{"early, the driver counts late", mix{early: true, accel: 2000, lag: 2000}, yes},
		{"early, half of the flows' packets go slow", mix{early: true, accel: 1000, slow: 1000}, yes},
		{"early, without counters", mix{early: true, accel: 5000, hidden: true}, yes},
		{"early, without counters, few", mix{early: true, accel: 900, hidden: true}, open},
		{"early, without counters, mostly other traffic", mix{early: true, accel: 5000, local: 9000, hidden: true}, open},
		{"ordinary, few", mix{accel: 999, slow: 4}, open},
		{"ordinary", mix{accel: 1000, slow: 4}, no},
		{"ordinary, many", mix{accel: 1e9, slow: 1e4, local: 1e5}, no},
		{"ordinary, half is other traffic", mix{accel: 2000, slow: 4, local: 2000}, no},
		{"ordinary, most is other traffic", mix{accel: 2000, slow: 4, local: 1e6}, no},
		{"ordinary, slow traffic of others", mix{accel: 4000, slow: 4, others: 1000}, no},
		{"ordinary, GRO on after all", mix{accel: 2000, merge: 40}, open},
		{"ordinary, the driver counts late", mix{accel: 2000, lag: 1000}, open},
		{"ordinary, the driver counts drops", mix{accel: 2000, lost: 490}, no},
		{"ordinary, the driver counts many drops", mix{accel: 2000, lost: 1400}, open},
		{"ordinary, without counters", mix{accel: 1e6, hidden: true}, open},
		{"ordinary, without counters, drops", mix{accel: 1e6, lost: 9e5, hidden: true}, open},
		{"blind, not enough", mix{blind: true, accel: 9999}, open},
		{"blind", mix{blind: true, accel: 10_000}, no},
		{"blind, other traffic", mix{blind: true, accel: 20_000, others: 1000, local: 1e6}, no},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.mix.evidence().verdict()
			if got.Verdict != tt.want || got.Reason == "" {
				t.Errorf("%+v: %+v, want %s", tt.mix.evidence(), got, tt.want)
			}
		})
	}
}

// No mix of traffic may make a right hook refuted, nor a wrong one confirmed,
// at any time of a run.
func TestVerdictNeverWrong(t *testing.T) {
	sizes := []uint64{0, 1, 50, 99, 100, 101, 999, 1000, 1001, 5000, 1e5, 1e7}
	for _, early := range []bool{true, false} {
		for _, accel := range sizes {
			for _, slow := range sizes[:4] {
				for _, others := range sizes {
					for _, local := range sizes {
						for _, merge := range []uint64{1, 2, 40} {
							for _, hidden := range []bool{false, true} {
								m := mix{early: early, accel: accel, slow: slow, others: others, local: local, merge: merge, hidden: hidden}
								got := m.evidence().verdict().Verdict
								if early && got == status.Refuted || !early && got == status.Confirmed {
									t.Fatalf("%+v: %s", m, got)
								}
							}
						}
					}
				}
			}
		}
	}
}

// A driver that counts once a second speaks against a right hook in one
// sample, but not in two.
func TestCheckWaitsForLateDrivers(t *testing.T) {
	late := mix{early: true, accel: 2000, local: 5000, lag: 1900}
	if got := late.evidence().verdict().Verdict; got != status.Refuted {
		t.Fatalf("one late sample: %s; this test needs one that misleads", got)
	}
	var c check
	c.use(2)
	c.restart()
	add := func(m mix) bool {
		e := m.evidence()
		return c.add(status.Delta{Known: status.Volume{Packets: e.flows}, Slow: status.Volume{Packets: e.slow}, Counted: true,
			Ports: map[string]state.PortCounters{"a": {RxPackets: e.rx, Ingress: e.ingress}}}, 1, &carried{number: 2, exact: true, checks: []string{"a"}})
	}
	if add(late) || c.result.Verdict != status.Unknown {
		t.Errorf("after one late sample: %+v", c.result)
	}
	late.lag, late.lost = 0, late.lag // it makes up for it
	if !add(late) || c.result.Verdict != status.Confirmed {
		t.Errorf("after the next: %+v", c.result)
	}
}

// run lets n packets a second pass through the fake for d.
func (k *fake) run(m mix, d time.Duration) {
	e := m.evidence()
	for range int(d / time.Second) {
		k.counters.SlowPackets += e.slow
		ports := map[string]state.PortCounters{}
		for name, p := range k.counters.Ports {
			p.RxPackets += e.rx / 2
			p.Ingress += e.ingress / 2
			ports[name] = p
		}
		k.counters.Ports = ports
		flows := []state.Flow{{Engine: state.EngineFlowtable, Proto: "tcp", Counted: e.counted, Orig: state.Tuple{Src: "192.168.1.2", SrcPort: 1000}}}
		if len(k.flows) > 0 {
			flows[0].Orig.Packets = k.flows[0].Orig.Packets
		}
		flows[0].Orig.Packets += e.flows
		k.flows = flows
		k.pass(time.Second)
	}
}

func startEarly(t *testing.T) *rig {
	k := newEarlyFake()
	k.counters.Ports = map[string]state.PortCounters{"eth0": {}, "eth1": {}}
	r := start(t, k, enabled)
	if !r.installed() || k.o.Table.Flowtable.Number != 2 || len(k.o.Checks) != 2 {
		t.Fatalf("table %+v, checks %q; want early_ingress under watch", k.o.Table, k.o.Checks)
	}
	return r
}

func TestCheckConfirms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startEarly(t)
		if got := r.status().Early.Verdict; got != status.Unknown {
			t.Errorf("before any packet: %s", got)
		}
		r.k.run(mix{early: true, accel: 1000, slow: 2, local: 300}, 2*time.Minute)
		d := r.status()
		if d.Early.Verdict != status.Confirmed || len(r.k.o.Checks) != 0 || r.k.o.Table.Flowtable.Number != 2 {
			t.Errorf("%+v, checks %q", d.Early, r.k.o.Checks)
		}
		if !strings.Contains(d.Report.HookReason, "confirmed") {
			t.Errorf("hook reason %q", d.Report.HookReason)
		}
		flows := r.k.calls["Connections"]
		r.k.run(mix{early: true, accel: 1000}, 10*time.Minute)
		if n := r.k.calls["Connections"] - flows; n > 11 {
			t.Errorf("%d samples in 10 minutes after the verdict", n)
		}
		r.stop()
	})
}

func TestCheckRefutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startEarly(t)
		r.k.run(mix{accel: 1000, slow: 2, local: 300}, 2*time.Minute)
		d := r.status()
		if d.Early.Verdict != status.Refuted || len(r.k.o.Checks) != 0 || r.k.o.Table.Flowtable.Number != state.NumberIngress {
			t.Errorf("%+v, checks %q, table %+v", d.Early, r.k.o.Checks, r.k.o.Table)
		}
		if d.Report.Hook != state.HookIngress || !strings.Contains(d.Report.HookReason, "pass netdev ingress first") {
			t.Errorf("hook %s: %q", d.Report.Hook, d.Report.HookReason)
		}
		if o := r.k.link("eth0").Feature.Offloads(); !o.GRO {
			t.Error("GRO was not given back")
		}
		r.stop()
	})
}

// Another hook number is another question.
func TestCheckForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startEarly(t)
		r.k.run(mix{accel: 1000}, time.Minute)
		r.write(strings.Replace(enabled, "option enabled '1'", "option enabled '1'\n\toption hook_number '3'", 1))
		r.a.Reload()
		r.pass(0)
		if d := r.status(); d.Early.Verdict != status.Unknown || r.k.o.Table.Flowtable.Number != 3 || len(r.k.o.Checks) != 2 {
			t.Errorf("%+v, table %+v", d.Early, r.k.o.Table)
		}
		r.stop()
	})
}

func TestCheckSleepsWithoutFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startEarly(t)
		r.pass(time.Minute)
		if n := r.k.calls["Connections"]; n > 3 { // after the table's change, 5 s later, with the minute's look
			t.Errorf("%d samples in the first minute without flows, want 3", n)
		}
		before := r.k.calls["Connections"]
		r.pass(10 * time.Minute)
		if n := r.k.calls["Connections"] - before; n > 11 {
			t.Errorf("%d samples in 10 minutes without flows", n)
		}
		r.k.run(mix{early: true, slow: 3}, 2*time.Minute) // found by the minute's sample
		before = r.k.calls["Connections"]
		r.k.run(mix{early: true, slow: 3}, time.Minute)
		if n := r.k.calls["Connections"] - before; n < 11 || n > 13 {
			t.Errorf("%d samples in a minute with flows and without a verdict, want 12", n)
		}
		r.stop()
	})
}
