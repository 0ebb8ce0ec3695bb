// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"fastpath/src/config"
	"fastpath/src/state"
)

// big makes routers of n ports in shapes that tempt a plan into n².
var big = map[string]func(n int) (config.Config, state.Observed){
	"bridge": func(n int) (config.Config, state.Observed) {
		c, o := bigRouter()
		o.Links = append(o.Links, state.Link{Index: 1, Name: "br-lan", Kind: "bridge"})
		for i := range n {
			o.Links = append(o.Links, nic(fmt.Sprintf("lan%d", i), i+2, 1))
		}
		network(&c, "lan", "br-lan")
		return c, o
	},
	"plain": func(n int) (config.Config, state.Observed) {
		c, o := bigRouter()
		for i := range n {
			name := fmt.Sprintf("eth%d", i)
			o.Links = append(o.Links, nic(name, i+1, 0))
			network(&c, fmt.Sprintf("net%d", i), name)
			c.Ports = append(c.Ports, config.Port{Device: name, Receive: config.ReceiveAuto})
		}
		return c, o
	},
	"engines": func(n int) (config.Config, state.Observed) {
		c, o := bigRouter()
		o.Marks.OK = true
		for i := range n {
			name, vlan := fmt.Sprintf("eth%d", i), fmt.Sprintf("eth%d.7", i)
			o.Links = append(o.Links, nic(name, i+1, 0), state.Link{Index: n + i + 1, Name: vlan, Kind: "vlan", Lower: i + 1, VLAN: 7})
			network(&c, "net"+name, name)
			network(&c, "net"+vlan, vlan)
			c.Ports = append(c.Ports, config.Port{Device: name, Engine: config.EngineXDP, Receive: config.ReceiveAuto})
		}
		return c, o
	},
	"vlans": func(n int) (config.Config, state.Observed) {
		c, o := bigRouter()
		o.Links = append(o.Links, nic("eth0", 1, 0))
		for i := range n {
			name := fmt.Sprintf("eth0.%d", i+1)
			o.Links = append(o.Links, state.Link{Index: i + 2, Name: name, Kind: "vlan", Lower: 1, VLAN: uint16(i + 1)})
			network(&c, fmt.Sprintf("net%d", i), name)
		}
		return c, o
	},
	// A zone for each two ports, with a policy and a drop list for each, a shaper on
	// each port, and others' programs on some.
	"everything": func(n int) (config.Config, state.Observed) {
		c, o := bigRouter()
		for i := range n {
			name, zone := fmt.Sprintf("eth%d", i), fmt.Sprintf("zone%d", i/2)
			l := nic(name, i+1, 0)
			l.Qdisc = state.Qdisc{Root: "cake", Shaper: "cake", Redirect: i%3 + 1}
			if i%7 == 0 {
				l.XDP = 7
			}
			o.Links = append(o.Links, l)
			c.Interfaces = append(c.Interfaces, config.Interface{Name: "net" + name, Proto: "static", Device: name})
			if i%2 == 0 {
				c.Zones = append(c.Zones, config.Zone{Name: zone})
				c.Policies = append(c.Policies, config.Policy{Name: zone, Action: config.Bypass, Src: []string{zone}, Proto: []string{"udp"},
					DestPort: []config.PortRange{{First: uint16(i), Last: uint16(i)}}})
			}
			z := &c.Zones[len(c.Zones)-1]
			z.Networks = append(z.Networks, "net"+name)
			c.Ports = append(c.Ports, config.Port{Device: name, Receive: config.ReceiveAuto})
		}
		c.Drops = []config.Drop{{Name: "abuse", Sources: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}}}
		o.FW4 = state.FW4{Present: true, Generation: "g1"}
		o.Saved = map[string]state.Offloads{"eth0": {GRO: true}} // something to do
		return c, o
	},
	"excluded": func(n int) (config.Config, state.Observed) {
		c, o := bigRouter()
		o.Links = append(o.Links, nic("eth0", 1, 0))
		network(&c, "lan", "eth0")
		for i := range n {
			name := fmt.Sprintf("wg%d", i)
			o.Links = append(o.Links, state.Link{Index: i + 2, Name: name, Kind: "wireguard"})
			network(&c, name, name)
			c.Ports = append(c.Ports, config.Port{Networks: []string{name}, Engine: config.EngineNone, Receive: config.ReceiveAuto})
		}
		return c, o
	},
}

func bigRouter() (config.Config, state.Observed) {
	c := config.Config{Zones: []config.Zone{{Name: "all"}}}
	c.Main = config.Main{Enabled: true, Hook: config.HookAuto, HookNumber: 2}
	o := state.Observed{Hooks: state.Hooks{Ingress: state.Ability{OK: true}, Early: state.Ability{OK: true}}}
	return c, o
}

func nic(name string, index, master int) state.Link {
	return state.Link{Index: index, Name: name, Master: master, Bus: true, Feature: state.Features{GRO: state.Feature{On: true}}}
}

func network(c *config.Config, name, device string) {
	c.Interfaces = append(c.Interfaces, config.Interface{Name: name, Proto: "static", Device: device})
	c.Zones[0].Networks = append(c.Zones[0].Networks, name)
}

// TestLinear: four times the ports may cost four times the work. What is counted
// is allocations and bytes, which don't depend on how busy the machine is.
func TestLinear(t *testing.T) {
	for shape, router := range big {
		t.Run(shape, func(t *testing.T) {
			allocs, bytes := cost(router(256))
			allocs4, bytes4 := cost(router(1024))
			t.Logf("256: %d allocations, %d bytes; 1024: %d, %d", allocs, bytes, allocs4, bytes4)
			if allocs4 > 5*allocs || bytes4 > 5*bytes {
				t.Errorf("4 times the ports: %.1f times the allocations, %.1f times the bytes",
					float64(allocs4)/float64(allocs), float64(bytes4)/float64(bytes))
			}
		})
	}
}

// TestThousandPorts: 1024 ports are planned within a second, which leaves a busy
// machine a hundred times what it takes: the fastest of some runs counts.
func TestThousandPorts(t *testing.T) {
	for shape, router := range big {
		c, o := router(1024)
		best := time.Hour
		for range 5 {
			start := time.Now()
			want, _ := Desired(c, o)
			if Diff(want, o) == nil {
				t.Errorf("%s: nothing to do", shape)
			}
			best = min(best, time.Since(start))
		}
		t.Logf("%s: %v", shape, best)
		if best > time.Second {
			t.Errorf("%s takes %v", shape, best)
		}
	}
}

func cost(c config.Config, o state.Observed) (allocs, bytes uint64) {
	const runs = 5
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		want, _ := Desired(c, o)
		if _, ok := want.Engines["eth1"]; ok != (c.Ports != nil && c.Ports[0].Engine == config.EngineXDP) {
			panic("engines are not as the shape has them")
		}
		o.Table = want.Table // so that Diff compares, and doesn't just install
		if Diff(want, o) == nil {
			panic("nothing to do")
		}
	}
	runtime.ReadMemStats(&after)
	return (after.Mallocs - before.Mallocs) / runs, (after.TotalAlloc - before.TotalAlloc) / runs
}
