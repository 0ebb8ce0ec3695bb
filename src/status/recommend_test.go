// SPDX-License-Identifier: Apache-2.0

package status

import (
	"maps"
	"strings"
	"testing"

	"fastpath/src/state"
)

// busy is a router at its limit: a WAN NIC, a LAN bridge of two NICs.
type busy struct {
	report  state.Report
	traffic Traffic
	links   map[string]*state.Link
	refused map[string]state.Refusal
}

func newBusy() *busy {
	softirq, percent := 60.0, 99.0
	b := &busy{
		traffic: Traffic{Softirq: &softirq, Interval: Share{Percent: &percent}},
		links:   map[string]*state.Link{}, refused: map[string]state.Refusal{},
	}
	for _, p := range []state.PortReport{{Name: "lan1", Path: "br-lan / lan1"}, {Name: "lan2", Path: "br-lan / lan2"},
		{Name: "wan", Path: "pppoe-wan / wan.7 / wan, wan.9 / wan"}} {
		b.links[p.Name] = &state.Link{Name: p.Name, Bus: true, XDPFeatures: xdpRedirect | xdpTransmit}
		p.Engine = state.EngineFlowtable
		b.report.Ports = append(b.report.Ports, p)
	}
	return b
}

func (b *busy) recommend() string {
	var links []state.Link
	for l := range maps.Values(b.links) {
		links = append(links, *l)
	}
	return Recommend(b.report, b.traffic, links, b.refused)
}

func (b *busy) engine(name string) *string {
	for i := range b.report.Ports {
		if b.report.Ports[i].Name == name {
			return &b.report.Ports[i].Engine
		}
	}
	panic(name)
}

var busyPorts = []string{"lan1", "lan2", "wan"}

var recommendCases = []struct {
	what   string
	change func(*busy)
	ports  []string
	may    bool
}{
	{"at its limit", func(*busy) {}, busyPorts, false},
	{"the CPU isn't busy", func(b *busy) { *b.traffic.Softirq = 25 }, nil, false},
	{"nobody knows how busy it is", func(b *busy) { b.traffic.Softirq = nil }, nil, false},
	{"it is busy with something else", func(b *busy) { *b.traffic.Interval.Percent = 10 }, nil, false},
	{"flows are not counted", func(b *busy) { b.traffic.Interval.Percent = nil }, nil, false},
	{"a kernel that doesn't tell the features", func(b *busy) { b.links["wan"].XDPFeatures = 0 }, busyPorts, true},
	{"transmit may come with a program", func(b *busy) { b.links["lan1"].XDPFeatures = xdpRedirect }, busyPorts, true},
	// PPPoE and VLAN 9 are two devices on the one NIC: it can pay without the LAN.
	{"one port of the bridge can't", func(b *busy) { b.links["lan2"].XDPFeatures = 1 }, []string{"wan"}, false},
	{"one port of the bridge has another's program", func(b *busy) { b.links["lan2"].XDP = 17 }, []string{"wan"}, false},
	{"one port of the bridge is Wi-Fi", func(b *busy) { b.links["lan2"].DevType = "wlan" }, []string{"wan"}, false},
	{"one port of the bridge was refused", func(b *busy) { b.refused["lan2"] = state.Refusal{Reason: "no"} }, []string{"wan"}, false},
	{"one port of the bridge is excluded", func(b *busy) { *b.engine("lan2") = "none" }, []string{"wan"}, false},
	{"nothing to go to", func(b *busy) { b.links["wan"].Bus = false }, nil, false},
	{"a part has it", func(b *busy) { *b.engine("wan") = state.EngineXDP }, []string{"lan1", "lan2"}, false},
	{"all have it", func(b *busy) {
		for _, p := range busyPorts {
			*b.engine(p) = state.EngineXDP
		}
	}, nil, false},
}

func TestRecommend(t *testing.T) {
	for _, c := range recommendCases {
		b := newBusy()
		c.change(b)
		got := b.recommend()
		if (got == "") != (c.ports == nil) {
			t.Errorf("%s: %q, want ports %q", c.what, got, c.ports)
			continue
		}
		for _, p := range busyPorts {
			_, list, _ := strings.Cut(got, "option device ")
			list, _, _ = strings.Cut(list, " (")
			named := strings.Contains(", "+list+", ", ", "+p+", ")
			if wanted := strings.Contains(strings.Join(c.ports, " "), p); named != wanted {
				t.Errorf("%s: %s named %v, want %v: %q", c.what, p, named, wanted, got)
			}
		}
		if got != "" && (!strings.Contains(got, "option engine 'xdp'") || strings.Contains(got, " may ") != c.may) {
			t.Errorf("%s: %q, want the option's name, may %v", c.what, got, c.may)
		}
	}
}
