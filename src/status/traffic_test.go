// SPDX-License-Identifier: Apache-2.0

package status

import (
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
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
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
