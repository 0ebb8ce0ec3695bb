// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"fastpath/src/config"
	"fastpath/src/state"
)

// conditions are policies with one condition each, or with a few that belong together.
var conditions = map[string]string{
	"none":           bypass("a", ""),
	"src":            bypass("a", "list src lan"),
	"two src":        bypass("a", "list src lan; list src guest"),
	"dest":           bypass("a", "list dest wan"),
	"src and dest":   bypass("a", "list src wan; list dest lan"),
	"proto":          bypass("a", "list proto udp"),
	"both protos":    bypass("a", "list proto udp; list proto tcp; list dest_port 53"),
	"family 4":       bypass("a", "option family ipv4"),
	"family 6":       bypass("a", "option family ipv6"),
	"src_ip":         bypass("a", "list src_ip 10.0.1.0/24"),
	"src_ip host":    bypass("a", "list src_ip fd00:2::2"),
	"src_ip list":    bypass("a", "list src_ip 10.0.2.0/25; list src_ip 10.0.1.2; list src_ip fd00:1::/64"),
	"dest_ip":        bypass("a", "list dest_ip 192.0.2.0/24; list dest_ip fd00:3::/64"),
	"dest_ip DNAT":   bypass("a", "list dest_ip 10.0.1.2; list dest_ip fd00:1::2"),
	"not the NATed":  bypass("a", "list dest_ip 192.0.2.1; list dest_ip fd00:3::1"),
	"not the SNATed": bypass("a", "list src_ip 192.0.2.1"),
	"src_port":       bypass("a", "list proto udp; list proto tcp; list src_port 7000-7099"),
	"dest_port":      bypass("a", "list proto udp; list dest_port 27000-27030; list dest_port 53"),
	"dest_port DNAT": bypass("a", "list proto tcp; list dest_port 80"),
	"not 8080":       bypass("a", "list proto tcp; list dest_port 8080"),
	"dscp":           bypass("a", "list dscp ef"),
	"two dscp":       bypass("a", "list src lan; list dscp ef; list dscp cs1"),
	"dscp 0":         bypass("a", "list dscp 0"),
	"mark":           bypass("a", "option mark 0x10"),
	"mark of others": bypass("a", "option mark 0/0x10"),
	"set":            bypass("a", "option set games"),
	"set and family": bypass("a", "option set games; option family ipv4"),
	"first wins":     accelerate("b", "list proto udp; list dest_port 53") + bypass("a", "list src lan") + accelerate("c", "list src guest; list dest wan") + bypass("d", ""),
	"accelerate ef":  accelerate("b", "list dscp ef") + bypass("a", "list dest wan"),
	"accelerate set": accelerate("b", "option set games") + bypass("a", ""),
}

func bypass(name, options string) string     { return policy(name, config.Bypass, options) }
func accelerate(name, options string) string { return policy(name, config.Accelerate, options) }

func policy(name, action, options string) string {
	text := fmt.Sprintf("config policy '%s'\n\toption action '%s'\n", name, action)
	for option := range strings.SplitSeq(options, "; ") {
		text += "\t" + option + "\n"
	}
	return text
}

// flows are of both families and protocols, from and to each side, with the
// port forward, code points and marks.
func flows() (all []flow) {
	for _, family := range []string{"ipv4", "ipv6"} {
		all = append(all,
			flow{from: "lan", to: "wan", proto: "udp", sport: 5000, dport: 53},
			flow{from: "lan", to: "wan", proto: "udp", sport: 7001, dport: 27015, dscp: 46},
			flow{from: "lan", to: "wan", proto: "tcp", sport: 5001, dport: 443, dscp: 46},
			flow{from: "guest", to: "wan", proto: "tcp", sport: 7050, dport: 53},
			flow{from: "guest", to: "wan", proto: "udp", sport: 5002, dport: 27031, dscp: 8},
			flow{from: "lan", to: "guest", proto: "udp", sport: 5003, dport: 4000, dscp: 8},
			flow{from: "wan", to: "lan", proto: "tcp", sport: 5004, dport: 80, forwarded: true},
			flow{from: "wan", to: "lan", proto: "udp", sport: 7002, dport: 80, forwarded: true, dscp: 46},
		)
		for i := len(all) - 8; i < len(all); i++ {
			all[i].family = family
		}
	}
	return all
}

// members are what somebody puts into the sets.
var members = map[string][]netip.Prefix{
	"games":  {netip.MustParsePrefix("192.0.2.0/25"), netip.MustParsePrefix("10.0.2.2/32")},
	"games6": {netip.MustParsePrefix("fd00:1::2/128")},
}

func (l *lab) fill() {
	for _, s := range l.table.Sets {
		for _, m := range members[s.Name] {
			l.router("nft", "add element inet fastpath "+s.Name+" { "+m.String()+" timeout 1h }")
		}
	}
}

// check sends each flow and compares the kernel, explain and the reference.
func (l *lab) check(t *testing.T, text string) (met map[bool]int) {
	policies := l.install(text)
	l.fill()
	met = map[bool]int{}
	for _, f := range flows() {
		v := l.exchange(f)
		want, by := accelerated(policies, members, f)
		met[want]++
		if v.accelerated != want {
			t.Errorf("%+v: accelerated %v, want %v by policy %q; explain: %s\n%s\n%s", f, v.accelerated, want, by, v.said.Text, text,
				l.router("nft", "list", "table", "inet", "fastpath"))
		}
		if v.sure && v.saidAccelerated() != v.accelerated {
			t.Errorf("%+v: accelerated %v, but explain says: %s\n%s", f, v.accelerated, v.said.Text, text)
		}
		if asks := strings.Contains(text, "dscp") || strings.Contains(text, "mark"); !v.sure && !asks {
			t.Errorf("%+v: explain isn't sure without need: %s\n%s", f, v.said.Text, text)
		}
		if v.sure && !want && !strings.Contains(v.said.Text, fmt.Sprintf("policy %q", by)) {
			t.Errorf("%+v: explain doesn't name policy %s: %s", f, by, v.said.Text)
		}
	}
	return met
}

// TestConditions: every condition matches the flows that it names, and no others.
func TestConditions(t *testing.T) {
	l := newLab(t)
	all := map[bool]int{}
	for name, text := range conditions {
		met := l.check(t, text)
		if len(met) < 2 && !slices.Contains([]string{"none", "not the NATed", "not the SNATed", "not 8080"}, name) {
			t.Errorf("%s: a test that can't fail: %v", name, met)
		}
		all[true] += met[true]
		all[false] += met[false]
	}
	t.Logf("%d flows accelerated, %d not", all[true], all[false])
}

// TestBothRulesCount: of a policy's pair of rules each matches the packets of
// its direction, and of no other policy's anything.
func TestBothRulesCount(t *testing.T) {
	l := newLab(t)
	const text = "list src lan; list dest wan; list proto udp; list dest_port 53; list src_ip 10.0.1.2; list src_ip fd00:1::2; list dest_ip 192.0.2.2; list dest_ip fd00:3::2"
	l.install(bypass("a", text) + bypass("b", "list src guest"))
	for _, f := range flows()[:1] {
		for _, family := range []string{"ipv4", "ipv6"} {
			f.family = family
			l.exchange(f)
		}
	}
	counters, err := l.k.Counters()
	l.must(err)
	for _, r := range l.table.Rules {
		n := counters.Rules[r.Identity()]
		// Four there and four back, of which the first is no established one.
		want := map[string]uint64{"a original": 3, "a reply": 4}[r.Policy+" "+direction(r)]
		if r.Policy != "" && n != want {
			t.Errorf("%s: %d packets, want %d", r, n, want)
		}
	}
}

func direction(r state.Rule) string {
	for _, m := range r.Matches {
		if m.Key == state.KeyDirection {
			return m.Values[0]
		}
	}
	return ""
}

// TestRandomPolicies compares lists of policies that chance has made.
func TestRandomPolicies(t *testing.T) {
	l := newLab(t)
	const lists = 25
	for seed := range uint64(lists) {
		r := rand.New(rand.NewPCG(seed, 4))
		text := ""
		for i := range 1 + r.IntN(4) {
			options := "list proto tcp; list proto udp"
			for _, some := range [][]string{
				{"list src lan", "list src wan", "list src guest; list src lan"}, {"list dest wan", "list dest lan; list dest guest"},
				{"option family ipv4", "option set games"}, {"list src_ip 10.0.0.0/16", "list src_ip fd00::/16; list src_ip 10.0.2.0/24"},
				{"list dest_ip 192.0.2.2; list dest_ip fd00:3::2", "list dest_ip 0.0.0.0/1"}, {"list src_port 5000-5002", "list src_port 5004; list src_port 7000-8000"},
				{"list dest_port 53; list dest_port 80-90", "list dest_port 443"}, {"list dscp 8; list dscp ef", "option mark 0x10/0xf0"},
			} {
				if r.IntN(4) == 0 {
					options += "; " + some[r.IntN(len(some))]
				}
			}
			if strings.Contains(options, "family ipv4") {
				options = strings.ReplaceAll(options, "list src_ip fd00::/16; ", "")
				options = strings.ReplaceAll(options, "; list dest_ip fd00:3::2", "")
			}
			text += policy(fmt.Sprint("p", i), []string{config.Bypass, config.Accelerate}[r.IntN(2)], options)
		}
		l.check(t, text)
	}
}
