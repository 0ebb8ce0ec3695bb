// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"testing"
)

var networkCases = []struct {
	name string
	text string
	want []Interface // without places
	gro  map[string]bool
}{
	{
		name: "as OpenWrt writes it", text: networkFile,
		want: []Interface{
			{Name: "loopback", Proto: "static", Device: "lo"},
			{Name: "lan", Proto: "static", Device: "br-lan"},
			{Name: "wan", Proto: "pppoe", Device: "eth0.35"},
			{Name: "wan6", Proto: "dhcpv6", Device: "pppoe-wan"},
			{Name: "modem", Proto: "qmi"},
		},
		gro: map[string]bool{"eth1": false},
	},
	{
		name: "the old form",
		text: "config interface lan\noption type bridge\noption ifname 'eth0.1 eth0.3'\noption proto static\n" +
			"config interface wan\noption ifname eth1\noption proto dhcp\nconfig interface x\nlist ifname eth2\noption device eth3\n",
		want: []Interface{
			{Name: "lan", Proto: "static", Device: "br-lan"},
			{Name: "wan", Proto: "dhcp", Device: "eth1"},
			{Name: "x", Device: "eth3"},
		},
	},
	{
		name: "aliases",
		text: "config interface a\noption device @b\nconfig interface b\noption device @c\nconfig interface c\noption device eth0\n" +
			"config interface d\noption device @e\nconfig interface e\noption device @d\nconfig interface f\noption device @g\n",
		want: []Interface{
			{Name: "a", Device: "eth0"}, {Name: "b", Device: "eth0"}, {Name: "c", Device: "eth0"},
			{Name: "d"}, {Name: "e"}, {Name: "f"},
		},
	},
	{
		name: "gro in netifd's words only",
		text: "config device\noption name a\noption gro 1\nconfig device\noption name b\noption gro false\nconfig device\noption name c\n" +
			"option gro on\nconfig device\noption gro 1\nconfig device\noption name d\nconfig device\noption name a\noption gro true\n",
		gro: map[string]bool{"a": true, "b": false},
	},
	{name: "nothing of ours", text: "config globals globals\nconfig route\noption interface lan\nconfig bridge-vlan\n"},
}

func TestNetwork(t *testing.T) {
	for _, c := range networkCases {
		t.Run(c.name, func(t *testing.T) {
			got, problems, notices := files{"fastpath": "config fastpath main\n", "network": c.text}.load(t)
			same(t, "problems", problems, nil)
			same(t, "notices", notices, nil)
			if i := bare(got.Interfaces); !reflect.DeepEqual(i, c.want) {
				t.Errorf("got  %+v\nwant %+v", i, c.want)
			}
			if !reflect.DeepEqual(got.GRO, c.gro) {
				t.Errorf("gro %v, want %v", got.GRO, c.gro)
			}
		})
	}
}

var firewallCases = []struct {
	name     string
	text     string
	zones    []Zone
	firewall Firewall // without its place
	line     int      // of flow_offloading
}{
	{
		name: "as OpenWrt writes it", text: firewallFile,
		zones:    []Zone{{Name: "lan", Networks: []string{"lan"}}, {Name: "wan", Networks: []string{"wan", "wan6"}}},
		firewall: Firewall{Present: true},
	},
	{
		name: "zones",
		text: "config zone\noption name a\nlist device 'eth0'\nlist device 'tun+'\nconfig zone\noption network lan\nconfig zone\n" +
			"option name b\noption enabled 0\nconfig zone z\noption name c\noption device 'eth1 eth2'\noption enabled true\noption masq6 '1'\n",
		zones:    []Zone{{Name: "a", Devices: []string{"eth0", "tun+"}}, {Name: "c", Devices: []string{"eth1", "eth2"}, Masq6: true}},
		firewall: Firewall{Present: true},
	},
	{
		name: "software offload", text: "config defaults\n\toption flow_offloading '1'\n",
		firewall: Firewall{Present: true, FlowOffloading: true}, line: 2,
	},
	{
		name: "hardware offload", text: "config defaults\n\toption flow_offloading_hw 'yes'\n\toption flow_offloading 'true'\n",
		firewall: Firewall{Present: true, FlowOffloading: true, FlowOffloadingHW: true}, line: 3,
	},
	{
		name: "hardware alone counts for nothing", text: "config defaults\n\toption flow_offloading_hw '1'\n\toption flow_offloading '0'\n",
		firewall: Firewall{Present: true}, line: 3,
	},
	{
		name: "the first defaults count, words that mean nothing don't",
		text: "config defaults\noption flow_offloading maybe\nconfig defaults\noption flow_offloading 1\n", line: 2,
		firewall: Firewall{Present: true},
	},
}

func TestFirewall(t *testing.T) {
	for _, c := range firewallCases {
		t.Run(c.name, func(t *testing.T) {
			got, problems, notices := files{"fastpath": "config fastpath main\n", "firewall": c.text}.load(t)
			same(t, "problems", problems, nil)
			same(t, "notices", notices, nil)
			if z := bare(got.Zones); !reflect.DeepEqual(z, c.zones) {
				t.Errorf("got  %+v\nwant %+v", z, c.zones)
			}
			if got.Firewall.FlowOffloadingPos.Line != c.line {
				t.Errorf("flow_offloading is in line %d, want %d", got.Firewall.FlowOffloadingPos.Line, c.line)
			}
			if f := bare(got.Firewall); f != c.firewall {
				t.Errorf("got  %+v\nwant %+v", f, c.firewall)
			}
		})
	}
}

func TestNoOtherFiles(t *testing.T) {
	c, problems, notices := files{"fastpath": "config fastpath main\n"}.load(t)
	same(t, "problems", problems, nil)
	same(t, "notices", notices, nil)
	if c.Firewall.Present || c.Interfaces != nil || c.Zones != nil || c.GRO != nil {
		t.Errorf("out of nothing: %+v", c)
	}
}
