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

const withPolicies = enabled + `
config policy 'web'
	option action 'accelerate'
	list proto 'tcp'
	list dest_port '443'
config policy 'games'
	option action 'bypass'
	option set 'games'
`

// TestPolicies: status tells what the policies' rules have counted, also after
// another look; explain asks the kernel what is in a set.
func TestPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		r := start(t, k, withPolicies)
		k.counters.Rules = map[string]uint64{}
		for i, rule := range k.o.Table.Rules {
			k.counters.Rules[rule.Identity()] = uint64(100 + i)
		}
		want := []status.Policy{{Name: "web", Action: "accelerate"}, {Name: "games", Action: "bypass"}}
		for _, rule := range k.o.Table.Rules {
			for i, p := range want {
				if strings.Contains(rule.Identity(), "by policy '"+p.Name+"'") {
					want[i].Packets += k.counters.Rules[rule.Identity()]
				}
			}
		}
		r.pass(3 * time.Second)
		if got := r.status().Policies; !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		k.conns = []state.Connection{{Status: state.StatusSeenReply, InDevice: "eth0", OutDevice: "eth1",
			Flow: state.Flow{Family: "ipv4", Proto: "udp",
				Orig:  state.Tuple{Src: "192.0.2.1", Dst: "198.51.100.2", SrcPort: 1, DstPort: 2},
				Reply: state.Tuple{Src: "198.51.100.2", Dst: "192.0.2.1", SrcPort: 2, DstPort: 1}}}}
		for in, text := range map[string]string{"198.51.100.2": `policy "games" keeps it there`, "198.51.100.3": "next packet"} {
			k.sets = map[string]string{"games": in}
			if e, err := r.explain("udp 192.0.2.1:1 198.51.100.2:2"); err != nil || !strings.Contains(e.Text, text) {
				t.Errorf("%+v, %v, want %q", e, err, text)
			}
		}
		k.always["InSet"] = errors.New("Zonk")
		if e, err := r.explain("udp 192.0.2.1:1 198.51.100.2:2"); err != nil || !strings.Contains(e.Text, "can't be told") {
			t.Errorf("%+v, %v", e, err)
		}
		r.stop()
	})
}

// TestSysctlFirst: rules that need a sysctl aren't installed when it can't be set.
func TestSysctlFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		k.always["SetSysctl"] = errors.New("Zonk")
		r := start(t, k, strings.Replace(enabled, "enabled '1'", "enabled '1'\n\toption defer_packets '3'", 1))
		if r.installed() || !strings.Contains(strings.Join(r.status().Look.Problems, "\n"), "Zonk") {
			t.Errorf("applied %q, problems %q", k.applied, r.status().Look.Problems)
		}
		delete(k.always, "SetSysctl")
		r.pass(2 * time.Second)
		if !r.installed() || !strings.HasPrefix(k.applied[0], "set sysctl ") {
			t.Errorf("applied %q", k.applied)
		}
		r.stop()
	})
}
