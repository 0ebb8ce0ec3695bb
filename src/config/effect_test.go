// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"
	"strings"
	"testing"
)

const mainOnly = "config fastpath main\n"

var effectCases = []struct {
	name     string
	text     string
	notYet   []string
	withhold string
}{
	{name: "nothing", text: mainOnly + "config port\noption device eth0\nconfig port\noption device eth1\noption engine none\n"},
	{
		name: "engines",
		text: mainOnly + "config port\noption device eth0\noption engine xdp\nconfig port\noption device eth1\noption engine afxdp\n",
	},
	{
		name:   "source validation",
		text:   mainOnly + "option source_validation loose\n",
		notYet: []string{"fastpath:1: source_validation has no effect in this version; addresses are not checked"},
	},
	{
		name:     "deferring",
		text:     mainOnly + "option defer_packets 3\n",
		notYet:   []string{"fastpath:1: defer_packets has no effect in this version; nothing is accelerated instead"},
		withhold: "defer_packets 3 keeps the first packets of each flow on the slow path, which this version can't do",
	},
	{
		name:     "deferring, but how much can't be read",
		text:     mainOnly + "option defer_packets some\n",
		notYet:   []string{"fastpath:1: defer_packets has no effect in this version; nothing is accelerated instead"},
		withhold: "defer_packets 1 keeps the first packets of each flow on the slow path, which this version can't do",
	},
	{
		name: "policies and drops",
		text: mainOnly + "config policy a\noption action accelerate\noption proto udp\nconfig policy b\noption action bypass\nconfig drop c\nlist source 192.0.2.1\n",
		notYet: []string{
			"fastpath:2: policies have no effect in this version; 'a' is passed over",
			"fastpath:5: policies have no effect in this version; because of 'b' nothing is accelerated instead",
			"fastpath:7: drop sections have no effect in this version; nothing is dropped for 'c'",
		},
		withhold: "policy 'b' keeps flows on the slow path, which this version can't do",
	},
	{
		name:   "policies that only accelerate",
		text:   mainOnly + "config policy a\noption action accelerate\n",
		notYet: []string{"fastpath:2: policies have no effect in this version; 'a' is passed over"},
	},
	{
		name:     "a bypass that can't be read whole",
		text:     mainOnly + "config policy a\noption action bypass\nlist proto gre\n",
		notYet:   []string{"fastpath:2: policies have no effect in this version; because of 'a' nothing is accelerated instead"},
		withhold: "policy 'a' keeps flows on the slow path, which this version can't do",
	},
}

func TestEffect(t *testing.T) {
	for _, c := range effectCases {
		t.Run(c.name, func(t *testing.T) {
			got, _, _ := openwrt(c.text).load(t)
			var lines []string
			for _, line := range got.NotYet() {
				lines = append(lines, strings.TrimPrefix(line, filepath.Dir(got.Main.Pos.File)+"/"))
			}
			same(t, "NotYet", lines, c.notYet)
			reason, yes := got.Withhold()
			if reason != c.withhold || yes != (c.withhold != "") {
				t.Errorf("Withhold is %q, %v; want %q", reason, yes, c.withhold)
			}
		})
	}
}

// TestZero: a Config that nobody loaded asks for nothing.
func TestZero(t *testing.T) {
	var c Config
	if _, yes := c.Withhold(); yes || c.NotYet() != nil || c.Main.Enabled {
		t.Errorf("%v", c.NotYet())
	}
}
