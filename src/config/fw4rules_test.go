// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const qosZones = "config zone\noption name lan\nconfig zone\noption name wan\n"

// words is a policy with its conditions alone.
func (p Policy) words() string {
	var b strings.Builder
	add := func(name string, list any) {
		if text := strings.Trim(fmt.Sprint(list), "[]"); text != "" {
			fmt.Fprintf(&b, " %s=%s", name, text)
		}
	}
	add("src", p.Src)
	add("dest", p.Dest)
	add("proto", p.Proto)
	add("family", p.Family)
	add("src_ip", p.SrcIP)
	add("dest_ip", p.DestIP)
	add("src_port", p.SrcPort)
	add("dest_port", p.DestPort)
	return p.Name + ":" + b.String()
}

const prio = "option target DSCP\noption set_dscp EF\n"

var qosRuleCases = []struct {
	name string
	rule string // options of one rule, after its target
	want []string
}{
	{"zones", "option src lan\noption dest wan\n", []string{
		"fw4 rule r: src=lan dest=wan proto=tcp udp", "fw4 rule r: src=wan dest=lan proto=tcp udp"}},
	{"the whole router", "option src '*'\noption dest '*'\noption proto all\n", []string{"fw4 rule r:"}},
	{"an end", "option src lan\noption dest '*'\noption proto udp\noption dest_port '5060 16384-32767'\noption name 'VoIP \"x\"'\n", []string{
		`fw4 rule VoIP "x": src=lan proto=udp dest_port={5060 5060} {16384 32767}`,
		`fw4 rule VoIP "x": dest=lan proto=udp src_port={5060 5060} {16384 32767}`}},
	{"addresses", "option src lan\noption dest wan\nlist src_ip 192.168.1.5\nlist src_ip '!192.168.1.6'\noption dest_ip '2001:db8::/32'\noption family IPv6\noption proto '6'\noption src_port 80:81\n", []string{
		"fw4 rule r: src=lan dest=wan proto=tcp family=ipv6 src_ip=192.168.1.5/32 dest_ip=2001:db8::/32 src_port={80 81}",
		"fw4 rule r: src=wan dest=lan proto=tcp family=ipv6 src_ip=2001:db8::/32 dest_ip=192.168.1.5/32 dest_port={80 81}"}},
	{"what a policy can't say makes it wider", "option src lan\noption dest wan\nlist src_ip 192.168.1.5\nlist src_ip 192.168.1.7-192.168.1.9\n" +
		"option src_mac 02:00:00:00:00:01\noption limit 5/second\noption dscp CS1\noption mark 1\noption start_time 08:00\noption ipset games\nlist dest_port '!22'\n", []string{
		"fw4 rule r: src=lan dest=wan proto=tcp udp", "fw4 rule r: src=wan dest=lan proto=tcp udp"}},
	{"every protocol has no ports", "option src lan\noption dest wan\noption proto any\noption dest_port 80\n", []string{
		"fw4 rule r: src=lan dest=wan", "fw4 rule r: src=wan dest=lan"}},
	{"not this protocol", "option src lan\noption dest '*'\noption proto '!icmp'\n", []string{"fw4 rule r: src=lan", "fw4 rule r: dest=lan"}},
	{"neither TCP nor UDP", "option src lan\noption dest wan\nlist proto icmp\nlist proto esp\n", nil},
	{"TCP among others", "option src lan\noption dest wan\nlist proto icmp\nlist proto TCP\n", []string{
		"fw4 rule r: src=lan dest=wan proto=tcp", "fw4 rule r: src=wan dest=lan proto=tcp"}},
	{"a device stands for the zone", "option src lan\noption dest wan\noption device eth9\n", []string{
		"fw4 rule r: dest=wan proto=tcp udp", "fw4 rule r: src=wan proto=tcp udp"}},
	{"of the other zone", "option src lan\noption dest wan\noption device eth9\noption direction out\n", []string{
		"fw4 rule r: src=lan proto=tcp udp", "fw4 rule r: dest=lan proto=tcp udp"}},
	{"what comes in", "option src lan\n", nil},
	{"what goes out", "option dest wan\n", nil},
	{"unknown zone", "option src lan\noption dest nowhere\n", nil},
	{"disabled", "option src lan\noption dest wan\noption enabled 0\n", nil},
}

func TestQoSRules(t *testing.T) {
	for _, c := range qosRuleCases {
		t.Run(c.name, func(t *testing.T) {
			same(t, "policies", qosRules(t, "config rule r\n"+prio+c.rule+qosZones), c.want)
		})
	}
}

// qosRules reads a firewall file, of which nothing is wrong or worth saying.
func qosRules(t *testing.T, firewall string) (words []string) {
	t.Helper()
	c, problems, notices := files{"fastpath": "config fastpath main\n", "firewall": firewall}.load(t)
	same(t, "problems", problems, nil)
	same(t, "notices", notices, nil)
	for _, p := range c.QoSRules {
		if p.Action != Bypass || p.Pos.Line != 1 {
			t.Errorf("policy %+v", p)
		}
		words = append(words, p.words())
	}
	return words
}

// TestQoSTargets: which rules set a DSCP or a mark, in fw4's reading.
func TestQoSTargets(t *testing.T) {
	for options, want := range map[string]bool{
		"option target DSCP\noption set_dscp EF\n":        true,
		"option target dscp\n":                            false,
		"option target MARK\noption set_mark 0x1/0xff\n":  true,
		"option target Mark\noption set_xmark 1\n":        true,
		"option target mark\noption set_dscp EF\n":        false,
		"option target m\noption set_mark 1\n":            true,
		"option target ds\noption set_dscp EF\n":          true,
		"option target d\noption set_dscp EF\n":           false,
		"option target ACCEPT\noption set_mark 1\n":       false,
		"option set_mark 1\n":                             false,
		"option target MARKER\noption set_mark 1\n":       false,
		"option target MARK\nlist set_mark 1\n":           true,
		"option target DSCP\noption set_dscp 'nothing'\n": true, // fw4 passes over it: wider
	} {
		got := qosRules(t, "config rule\noption src lan\noption dest wan\n"+options+qosZones)
		if (len(got) > 0) != want {
			t.Errorf("%q: %q", options, got)
		}
	}
}

// TestQoSBeforeDNAT: a rule before DNAT sees another destination than a policy,
// where a redirect changes it.
func TestQoSBeforeDNAT(t *testing.T) {
	const rule = "config rule r\n" + prio + "option src wan\noption dest '*'\noption dest_ip 198.51.100.2\noption dest_port 8080\n"
	for redirect, want := range map[string]string{
		"": "fw4 rule r: src=wan proto=tcp udp dest_ip=198.51.100.2/32 dest_port={8080 8080}",
		"config redirect\noption src wan\noption dest lan\noption src_dport 8080\noption dest_port 80\n": "fw4 rule r: src=wan proto=tcp udp",
		"config redirect\noption src wan\noption enabled 0\n":                                            "fw4 rule r: src=wan proto=tcp udp dest_ip=198.51.100.2/32 dest_port={8080 8080}",
		"config redirect\noption src wan\noption target SNAT\n":                                          "fw4 rule r: src=wan proto=tcp udp dest_ip=198.51.100.2/32 dest_port={8080 8080}",
	} {
		back := "fw4 rule r: dest=wan proto=tcp udp src_ip=198.51.100.2/32 src_port={8080 8080}"
		same(t, "policies", qosRules(t, rule+redirect+qosZones), []string{want, back})
	}
}

func TestShapers(t *testing.T) {
	f := files{"fastpath": "config fastpath main\n",
		"sqm": "config queue a\noption enabled 1\noption interface eth1\nconfig queue b\noption interface eth2\n" +
			"config queue c\noption enabled 0\noption interface eth3\nconfig other\noption enabled 1\noption interface eth4\n",
		"qosify": "config defaults\nconfig interface wan\noption name wan\nconfig interface lan\noption disabled 1\nconfig interface wan6\n" +
			"config device wandev\noption name eth5\nconfig class x\noption name y\n",
		"qosmate": "config global global\noption enabled 1\nconfig settings settings\noption WAN eth6\n",
	}
	c, problems, notices := f.load(t)
	same(t, "problems", problems, nil)
	same(t, "notices", notices, nil)
	want := []Shaper{{"sqm-scripts", "eth1", ""}, {"qosify", "", "wan"}, {"qosify", "", "wan6"}, {"qosify", "eth5", ""}, {"qosmate", "eth6", ""}}
	if !reflect.DeepEqual(c.Shapers, want) {
		t.Errorf("got  %+v\nwant %+v", c.Shapers, want)
	}
	f["qosmate"] = strings.Replace(f["qosmate"], "enabled 1", "enabled 0", 1)
	if c, _, _ := f.load(t); len(c.Shapers) != 4 {
		t.Errorf("qosmate is off: %+v", c.Shapers)
	}
}
