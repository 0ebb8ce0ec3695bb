// SPDX-License-Identifier: Apache-2.0

package status

import (
	"reflect"
	"testing"
	"time"

	"fastpath/src/state"
)

// at is one sample.
type at struct {
	second   int
	slow     uint64
	rx       uint64
	flows    map[string]uint64 // packets by originator; bytes are 100 times that
	noCounts bool
}

func (s at) add(m *Meter) Delta {
	var flows []state.Flow
	for src, n := range s.flows {
		flows = append(flows, state.Flow{Proto: "tcp", Counted: !s.noCounts,
			Orig:  state.Tuple{Src: src, Packets: n / 2, Bytes: n / 2 * 100},
			Reply: state.Tuple{Dst: src, Packets: n - n/2, Bytes: (n - n/2) * 100}})
	}
	c := state.Counters{SlowPackets: s.slow, SlowBytes: s.slow * 100,
		Ports: map[string]state.PortCounters{"eth0": {RxPackets: s.rx, RxBytes: s.rx * 114}}}
	return m.Add(time.Unix(int64(s.second), 0), c, flows)
}

type packets = map[string]uint64

const none = -1.0 // no percentage

var meterCases = []struct {
	name     string
	samples  []at
	percent  float64 // since the start
	interval float64 // in the last interval
	flows    uint64  // packets since the start
}{
	{"nothing yet", nil, none, none, 0},
	{"the first sample is only where counting begins",
		[]at{{0, 500, 9000, packets{"a": 8000}, false}}, none, none, 0},
	{"a known flow grows",
		[]at{{0, 500, 9000, packets{"a": 8000}, false}, {10, 510, 10000, packets{"a": 9000}, false}}, 99, 99, 1000},
	{"a fresh flow brings its packets",
		[]at{{0, 0, 0, nil, false}, {10, 10, 1000, packets{"a": 1000}, false}}, 99, 99, 1000},
	{"but not a history that no port received meanwhile",
		[]at{{0, 0, 0, nil, false}, {10, 10, 1000, packets{"a": 1_000_000}, false}}, 99, 99, 1000},
	{"known flows leave less room for fresh ones",
		[]at{{0, 0, 0, packets{"a": 0}, false}, {10, 10, 1000, packets{"a": 900, "b": 5000}, false}}, 99, 99, 1000},
	{"all by the slow path",
		[]at{{0, 0, 0, packets{"a": 10}, false}, {10, 1000, 1000, packets{"a": 1010}, false}}, 0, 0, 1000},
	{"slow traffic without any flow",
		[]at{{0, 0, 0, nil, false}, {10, 1000, 1000, nil, false}}, 0, 0, 0},
	{"slow packets of others never make more than 0",
		[]at{{0, 0, 0, packets{"a": 0}, false}, {10, 500, 1000, packets{"a": 100}, false}}, 0, 0, 100},
	{"flows that are not counted tell nothing",
		[]at{{0, 0, 0, nil, false}, {10, 5, 1000, packets{"a": 0}, true}}, none, none, 0},
	{"the table was made anew, its counter too",
		[]at{{0, 700, 0, packets{"a": 0}, false}, {10, 10, 1000, packets{"a": 1000}, false}}, 99, 99, 1000},
	{"the same tuple is another connection",
		[]at{{0, 0, 0, packets{"a": 5000}, false}, {10, 10, 1000, packets{"a": 1000}, false}}, 99, 99, 1000},
	{"the interval forgets, the sum doesn't",
		[]at{{0, 0, 0, packets{"a": 0}, false}, {10, 1000, 1000, packets{"a": 1000}, false}, {20, 1000, 2000, packets{"a": 2000}, false}},
		50, 100, 2000},
	{"a flow that ended leaves what was seen of it",
		[]at{{0, 0, 0, packets{"a": 0}, false}, {10, 10, 1000, packets{"a": 1000}, false}, {20, 10, 1000, nil, false}}, 99, none, 1000},
}

func TestMeter(t *testing.T) {
	for _, tt := range meterCases {
		t.Run(tt.name, func(t *testing.T) {
			var m Meter
			for _, s := range tt.samples {
				s.add(&m)
			}
			got := m.Traffic()
			check := func(what string, p *float64, want float64) {
				t.Helper()
				if (p == nil) != (want == none) || p != nil && *p != want {
					t.Errorf("%s: percent %v, want %v", what, text(p), want)
				}
			}
			check("since the start", got.SinceStart.Percent, tt.percent)
			check("interval", got.Interval.Percent, tt.interval)
			if got.SinceStart.Flows.Packets != tt.flows {
				t.Errorf("flows' packets %d, want %d", got.SinceStart.Flows.Packets, tt.flows)
			}
		})
	}
}

func text(p *float64) any {
	if p == nil {
		return "none"
	}
	return *p
}

func TestMeterPorts(t *testing.T) {
	var m Meter
	sample := func(ports map[string]state.PortCounters) { m.Add(time.Unix(1, 0), state.Counters{Ports: ports}, nil) }
	sample(map[string]state.PortCounters{"b": {RxPackets: 100}})
	sample(map[string]state.PortCounters{"b": {RxPackets: 130, TxBytes: 7}, "a": {RxPackets: 1000}})
	sample(map[string]state.PortCounters{"b": {RxPackets: 20, TxBytes: 8}, "a": {RxPackets: 1001}})
	want := []PortTraffic{
		{Name: "a", Rx: Volume{Packets: 1}},                        // counted from when it appeared
		{Name: "b", Rx: Volume{Packets: 50}, Tx: Volume{Bytes: 8}}, // 30, then made anew with 20
	}
	got := m.Traffic().Ports
	for i := range want {
		want[i].Kernel = want[i].Rx.Packets
		want[i].Passed, want[i].Dropped = map[string]uint64{}, map[string]uint64{}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The check of early_ingress lives on these.
func TestMeterDelta(t *testing.T) {
	var m Meter
	first := at{0, 5, 100, packets{"a": 50}, false}.add(&m)
	if first.Known.Packets != 0 || first.Fresh.Packets != 0 || first.Slow.Packets != 0 || first.Seconds != 0 {
		t.Errorf("the first delta is %+v, want nothing", first)
	}
	d := at{4, 6, 400, packets{"a": 250, "b": 30}, false}.add(&m)
	if d.Seconds != 4 || d.Known.Packets != 200 || d.Fresh.Packets != 30 || d.Slow.Packets != 1 || !d.Counted || d.Ports["eth0"].RxPackets != 300 {
		t.Errorf("delta %+v", d)
	}
}

// What engines forward is exact, and comes on top of what conntrack knows.
func TestMeterEngines(t *testing.T) {
	var m Meter
	engine := func(packets, passed, dropped uint64) map[string]state.EngineCounters {
		return map[string]state.EngineCounters{"eth0": {Packets: packets, Bytes: packets * 1000,
			Passed: map[string]uint64{"no-flow": passed}, Dropped: map[string]uint64{"shed": dropped}}}
	}
	sample := func(second int, slow, rx, conntrack uint64, engines map[string]state.EngineCounters, full uint64) Delta {
		c := state.Counters{SlowPackets: slow, Engines: engines, EngineFlows: 5, EngineFull: full,
			Ports: map[string]state.PortCounters{"eth0": {RxPackets: rx}, "eth1": {}}}
		flows := []state.Flow{{Proto: "tcp", Counted: true, Orig: state.Tuple{Packets: conntrack}}}
		return m.Add(time.Unix(int64(second), 0), c, flows)
	}
	sample(0, 0, 0, 0, nil, 0)
	sample(1, 0, 50, 0, engine(1000, 100, 1), 3) // new: what it has counted may be old
	if s := m.Traffic().SinceStart; s.Engines.Packets != 0 || m.Traffic().Ports[0].Kernel != 50 {
		t.Errorf("a new engine's past counts: %+v, kernel %d", s, m.Traffic().Ports[0].Kernel)
	}
	d := sample(2, 10, 1160, 110, engine(1900, 200, 2), 4)
	if d.Kernel("eth0") != 100 || d.Kernel("eth1") != 0 {
		t.Errorf("the kernel got %d and %d", d.Kernel("eth0"), d.Kernel("eth1"))
	}
	got := m.Traffic()
	s := got.SinceStart
	if s.Engines != (Volume{900, 900_000}) || s.Flowtable.Packets != 100 || s.Accelerated.Packets != 1000 || *s.Percent != 100*1000.0/1010 {
		t.Errorf("since the start %+v, %v %%", s, *s.Percent)
	}
	if got.EngineFlows != 5 || got.EngineFull != 4 {
		t.Errorf("%d flows, %d found no room; want 5 and 4", got.EngineFlows, got.EngineFull)
	}
	sample(3, 10, 2000, 110, engine(7, 1, 0), 4) // started anew
	sample(4, 10, 2100, 110, nil, 4)             // gone
	want := []PortTraffic{
		{Name: "eth0", Rx: Volume{Packets: 2100}, Engine: Volume{907, 907_000}, Kernel: 50 + 100 + 1 + 100,
			Passed: map[string]uint64{"no-flow": 101}, Dropped: map[string]uint64{"shed": 1}},
		{Name: "eth1", Passed: map[string]uint64{}, Dropped: map[string]uint64{}},
	}
	if ports := m.Traffic().Ports; !reflect.DeepEqual(ports, want) {
		t.Errorf("ports %+v\nwant %+v", ports, want)
	}
	if got.Ports[0].Engine.Packets != 900 {
		t.Error("a document that was given away changed")
	}
}

// Without a flowtable nothing hangs on conntrack's counters.
func TestMeterEnginesOnly(t *testing.T) {
	var m Meter
	for i, n := range []uint64{0, 99} {
		m.Add(time.Unix(int64(i), 0), state.Counters{SlowPackets: uint64(i),
			Engines: map[string]state.EngineCounters{"eth0": {Packets: n}}}, nil)
	}
	if got := m.Traffic(); !got.Counted || got.SinceStart.Percent == nil || *got.SinceStart.Percent != 99 {
		t.Errorf("%+v", got)
	}
}
