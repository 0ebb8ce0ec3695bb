// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"fastpath/src/state"
	"fastpath/src/status"
)

// flowsOf are n equal flows from in to out, with bytes and packets of each direction.
func flowsOf(n int, orig, reply status.Volume) (top []status.Growth) {
	for i := range n {
		f := &state.Flow{Orig: state.Tuple{Src: "192.168.1.2", SrcPort: uint16(i)}}
		top = append(top, status.Growth{Flow: f, Orig: orig, Reply: reply})
	}
	return top
}

func placed(in, out string) func([]state.Flow) error {
	return func(flows []state.Flow) error {
		for i := range flows {
			flows[i].In, flows[i].Out = in, out
		}
		return nil
	}
}

func rx(packets, bytes uint64) state.PortCounters {
	return state.PortCounters{RxPackets: packets, RxBytes: bytes}
}

func TestShares(t *testing.T) {
	links := []state.Link{
		{Index: 1, Name: "br-lan", Kind: "bridge"}, {Index: 2, Name: "lan1", Master: 1}, {Index: 3, Name: "lan2.7", Kind: "vlan", Lower: 4, Master: 1},
		{Index: 4, Name: "lan2"}, {Index: 5, Name: "wan"},
	}
	type want struct{ received, forwarded, local, flows float64 }
	for _, tt := range []struct {
		name string
		d    status.Delta
		want map[string]want
	}{
		{"nothing", status.Delta{}, map[string]want{}},
		{"unknown", status.Delta{Ports: map[string]state.PortCounters{"wan": rx(100, 100*1514)}}, map[string]want{"wan": {150000, 0, 0, 0}}},
		{"all local", status.Delta{Stack: 150000, Ports: map[string]state.PortCounters{"wan": rx(100, 100*1514)}}, map[string]want{"wan": {150000, 0, 150000, 0}}},
		{"no more local than IP received", status.Delta{Stack: 30000, Ports: map[string]state.PortCounters{"wan": rx(100, 100*1014), "lan1": rx(50, 50*1014)}},
			map[string]want{"wan": {100000, 0, 20000, 0}, "lan1": {50000, 0, 10000, 0}}},
		{"two flows to a bridge", status.Delta{
			Known: status.Volume{Bytes: 120000},
			Top:   flowsOf(2, status.Volume{Bytes: 15000}, status.Volume{Bytes: 45000}),
			Ports: map[string]state.PortCounters{"wan": rx(100, 100*1514), "lan1": rx(10, 10*1514), "lan2": rx(20, 20*1514)},
		}, map[string]want{"wan": {150000, 90000, 0, 2}, "lan1": {15000, 10000, 0, 2}, "lan2": {30000, 20000, 0, 2}}},
		{"the largest stand for all", status.Delta{
			Known: status.Volume{Bytes: 60000}, Fresh: status.Volume{Bytes: 60000},
			Top:   flowsOf(4, status.Volume{}, status.Volume{Bytes: 15000}),
			Ports: map[string]state.PortCounters{"wan": rx(100, 100*1514)},
		}, map[string]want{"wan": {150000, 120000, 0, 4}}},
		{"never more than received", status.Delta{
			Fresh: status.Volume{Bytes: 9e9}, Top: flowsOf(1, status.Volume{}, status.Volume{Bytes: 9e9}),
			Ports: map[string]state.PortCounters{"wan": rx(100, 100*1514)},
		}, map[string]want{"wan": {150000, 150000, 0, 1}}},
		{"the slow path is forwarding", status.Delta{
			Slow: status.Volume{Bytes: 60000}, Stack: 90000,
			Ports: map[string]state.PortCounters{"wan": rx(100, 100*1014), "lan1": rx(50, 50*1014)},
		}, map[string]want{"wan": {100000, 40000, 20000, 0}, "lan1": {50000, 20000, 10000, 0}}},
		{"an engine's bytes are nobody's", status.Delta{
			Ports:   map[string]state.PortCounters{"wan": rx(100, 100*1014)},
			Engines: map[string]state.EngineCounters{"wan": {Packets: 60, Bytes: 60000, Passed: map[string]uint64{"no-flow": 40}}},
		}, map[string]want{"wan": {40000, 0, 0, 0}}},
	} {
		got, err := shares(tt.d, links, placed("br-lan", "wan"))
		if err != nil || len(got) != len(tt.want) {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
		for name, w := range tt.want {
			if g := (want{got[name].received, got[name].forwarded, got[name].local, got[name].flows}); g != w {
				t.Errorf("%s: %s %+v, want %+v", tt.name, name, g, w)
			}
		}
	}
}
