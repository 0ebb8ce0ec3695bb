// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"testing"
)

// port is a port with the defaults.
func port(change func(*Port)) Port {
	p := Port{Engine: "flowtable", XDPMode: "native", Receive: "auto"}
	change(&p)
	return p
}

func device(name string) Port { return port(func(p *Port) { p.Device = name }) }

var portCases = []struct {
	name     string
	main     string // options of section main, on its line
	text     string // from line 2
	want     []Port // without places
	problems []string
	notices  []string
}{
	{
		name: "by network and by device",
		text: "config port\nlist network wan\nlist network wan6\nconfig port\noption device eth1\n",
		want: []Port{port(func(p *Port) { p.Networks = []string{"wan", "wan6"} }), device("eth1")},
	},
	{
		name: "everything",
		text: "config port\noption network 'lan  modem'\noption engine afxdp\noption xdp_mode native\n" +
			"option zero_copy on\noption receive fraglist\noption force 1\n",
		want: []Port{{Networks: []string{"lan", "modem"}, Engine: "afxdp", XDPMode: "native", ZeroCopy: true,
			Receive: "fraglist", Force: true}},
	},
	{
		name: "interfaces that netifd makes",
		text: "config port\nlist network wan_6\nconfig port\nlist network modem_4_6\nconfig port\nlist network lan_\nlist network _lan\n",
		want: []Port{port(func(p *Port) { p.Networks = []string{"wan_6"} }), port(func(p *Port) { p.Networks = []string{"modem_4_6"} })},
		problems: []string{
			"fastpath:7: network 'lan_' is unknown; the file network has loopback, lan, wan, wan6, modem",
			"fastpath:8: network '_lan' is unknown; the file network has loopback, lan, wan, wan6, modem",
		},
	},
	{
		name: "which port is not clear",
		text: "config port\nconfig port\nlist network wan\noption device eth1\nconfig port\nlist network wna\nconfig port\nlist network ''\n",
		problems: []string{
			"fastpath:2: a port needs network or device",
			"fastpath:5: a port has either network or device, not both",
			"fastpath:7: network 'wna' is unknown; the file network has loopback, lan, wan, wan6, modem",
			"fastpath:9: network is empty",
		},
	},
	{
		name: "one of two networks is wrong",
		text: "config port\nlist network wna\nlist network lan\nlist network lan\n",
		want: []Port{port(func(p *Port) { p.Networks = []string{"lan"} })},
		problems: []string{
			"fastpath:3: network 'wna' is unknown; the file network has loopback, lan, wan, wan6, modem",
			"fastpath:5: network 'lan' is named twice",
		},
	},
	{
		name: "the same port twice",
		text: "config port\nlist network wan\nconfig port\nlist network wan\nconfig port\noption device eth0.35\nconfig port\n" +
			"list network wan6\nconfig port\noption device pppoe-wan\nconfig port\nlist network wan_6\nconfig port\noption device eth0\n" +
			"config port\noption device eth0\nconfig port\nlist network modem\nconfig port\nlist network modem_4\n",
		want: []Port{port(func(p *Port) { p.Networks = []string{"wan"} }), device("eth0"), port(func(p *Port) { p.Networks = []string{"modem"} })},
		problems: []string{
			"fastpath:4: this is the same port as in line 2",
			"fastpath:6: this is the same port as in line 2",
			"fastpath:8: this is the same port as in line 2",
			"fastpath:10: this is the same port as in line 2",
			"fastpath:12: this is the same port as in line 2",
			"fastpath:16: this is the same port as in line 14",
			"fastpath:20: this is the same port as in line 18",
		},
	},
	{
		name: "device names",
		text: "config port\noption device abcdefghijklmno\nconfig port\noption device abcdefghijklmnop\nconfig port\noption device a/b\n" +
			"config port\noption device 'a b'\nconfig port\noption device ..\nconfig port\noption device eth0:1\nconfig port\nlist device eth2\n",
		want: []Port{device("abcdefghijklmno")},
		problems: []string{
			"fastpath:5: device 'abcdefghijklmnop' is too long for a device; the kernel takes 15 bytes",
			"fastpath:7: device 'a/b' is no device name; it has a slash, a colon or a blank in it",
			"fastpath:9: device 'a b' is no device name; it has a slash, a colon or a blank in it",
			"fastpath:11: device '..' is no device name",
			"fastpath:13: device 'eth0:1' is no device name; it has a slash, a colon or a blank in it",
			"fastpath:15: device takes one value (option), not a list",
		},
	},
	{
		name: "values that can't be read touch least",
		text: "config port\noption device eth2\noption engine nonne\noption xdp_mode skb\noption zero_copy 2\noption receive grro\n" +
			"option force x\noption mtu 1500\n",
		want: []Port{{Device: "eth2", Engine: "none", XDPMode: "native", Receive: "keep"}},
		problems: []string{
			"fastpath:4: engine is 'nonne'; it can be flowtable, xdp, afxdp or none",
			"fastpath:5: xdp_mode is 'skb'; it can be native or generic",
			"fastpath:6: zero_copy is '2'; it can be 1 or 0",
			"fastpath:7: receive is 'grro'; it can be auto, bulk, fraglist, gro, off or keep",
			"fastpath:8: force is 'x'; it can be 1 or 0",
			"fastpath:9: unknown option mtu; a port section has network, device, engine, xdp_mode, zero_copy, receive, force",
		},
		notices: []string{
			"fastpath:5: xdp_mode has no effect with engine none",
			"fastpath:8: force has no effect with engine none",
			"fastpath:6: zero_copy has no effect with engine none",
		},
	},
	{
		name: "options of another engine",
		text: "config port\noption device eth2\noption xdp_mode generic\noption zero_copy 1\n" +
			"config port\noption device eth3\noption engine xdp\noption xdp_mode generic\noption zero_copy 1\n" +
			"config port\noption device eth4\noption engine afxdp\noption xdp_mode generic\noption zero_copy 1\n",
		want: []Port{
			device("eth2"),
			{Device: "eth3", Engine: "xdp", XDPMode: "generic", Receive: "auto"},
			{Device: "eth4", Engine: "afxdp", XDPMode: "generic", Receive: "auto"},
		},
		problems: []string{
			"fastpath:4: xdp_mode generic needs engine xdp or afxdp; this port has flowtable",
			"fastpath:5: zero_copy needs engine afxdp; this port has flowtable",
			"fastpath:10: zero_copy needs engine afxdp; this port has xdp",
			"fastpath:15: zero_copy needs xdp_mode native",
		},
	},
	{
		name: "options without effect",
		text: "config port\noption device eth2\noption xdp_mode native\noption zero_copy 0\noption force 1\n" +
			"config port\noption device eth3\noption engine xdp\noption zero_copy 0\n",
		want: []Port{
			{Device: "eth2", Engine: "flowtable", XDPMode: "native", Receive: "auto", Force: true},
			{Device: "eth3", Engine: "xdp", XDPMode: "native", Receive: "auto"},
		},
		notices: []string{
			"fastpath:4: xdp_mode has no effect with engine flowtable",
			"fastpath:6: force has no effect with engine flowtable",
			"fastpath:5: zero_copy has no effect with engine flowtable",
			"fastpath:10: zero_copy has no effect with engine xdp",
		},
	},
	{
		name: "generic mode at early_ingress",
		main: "option hook early_ingress",
		text: "config port\noption device eth2\noption engine xdp\noption xdp_mode generic\nconfig port\noption device eth3\noption receive bulk\n",
		want: []Port{device("eth2"), {Device: "eth3", Engine: "flowtable", XDPMode: "native", Receive: "bulk"}},
		problems: []string{
			"fastpath:5: xdp_mode generic can't go with hook early_ingress, which takes packets before the program sees them",
		},
	},
	{
		name:     "bulks that nothing takes",
		main:     "option hook ingress",
		text:     "config port\noption device eth2\noption receive bulk\n",
		want:     []Port{{Device: "eth2", Engine: "flowtable", XDPMode: "native", Receive: "keep"}},
		problems: []string{"fastpath:4: receive bulk needs hook early_ingress or auto; it is ingress"},
	},
	{
		name:     "bulks without a hook",
		main:     "option hook off",
		text:     "config port\noption device eth2\noption receive bulk\n",
		want:     []Port{{Device: "eth2", Engine: "flowtable", XDPMode: "native", Receive: "keep"}},
		problems: []string{"fastpath:4: receive bulk needs hook early_ingress or auto; it is off"},
	},
	{
		name:     "bulks without an engine",
		text:     "config port\noption device eth2\noption engine none\noption receive bulk\n",
		want:     []Port{{Device: "eth2", Engine: "none", XDPMode: "native", Receive: "keep"}},
		problems: []string{"fastpath:5: receive bulk needs an engine that takes the bulks; this port has none"},
	},
	{
		name: "generic mode has no GRO",
		text: "config port\noption device eth2\noption engine xdp\noption xdp_mode generic\noption receive fraglist\n",
		want: []Port{{Device: "eth2", Engine: "xdp", XDPMode: "generic", Receive: "fraglist"}},
		notices: []string{
			"fastpath:6: receive fraglist has no effect with xdp_mode generic, for which the kernel leaves GRO out",
		},
	},
	{
		name: "generic mode and bulks where the hook is free",
		text: "config port\noption device eth2\noption engine xdp\noption xdp_mode generic\noption receive bulk\n",
		want: []Port{{Device: "eth2", Engine: "xdp", XDPMode: "generic", Receive: "bulk"}},
	},
}

func TestPort(t *testing.T) {
	for _, c := range portCases {
		t.Run(c.name, func(t *testing.T) {
			got, problems, notices := openwrt("config fastpath main ; " + c.main + " #\n" + c.text).load(t)
			same(t, "problems", problems, c.problems)
			same(t, "notices", notices, c.notices)
			if p := bare(got.Ports); !reflect.DeepEqual(p, c.want) {
				t.Errorf("got  %+v\nwant %+v", p, c.want)
			}
		})
	}
}

// TestPortOutsideOpenWrt: without a file network only devices have names.
func TestPortOutsideOpenWrt(t *testing.T) {
	text := "config fastpath main\nconfig port\n\tlist network wan\nconfig port\n\toption device eth0\n"
	c, problems, _ := files{"fastpath": text}.load(t)
	same(t, "problems", problems, []string{
		"fastpath:3: network 'wan' is unknown, as there is no file network; name a device instead",
	})
	if p := bare(c.Ports); !reflect.DeepEqual(p, []Port{device("eth0")}) {
		t.Errorf("got %+v", p)
	}
}

// TestPortByNetifdsName: a device that netifd will make is known by its network, too.
func TestPortByNetifdsName(t *testing.T) {
	c, problems, _ := files{
		"network":  "config interface tun\n\toption proto dslite\n",
		"fastpath": "config fastpath main\nconfig port\n\tlist network tun\nconfig port\n\toption device ds-tun\n",
	}.load(t)
	same(t, "problems", problems, []string{"fastpath:4: this is the same port as in line 2"})
	if len(c.Ports) != 1 || len(c.Interfaces) != 1 || c.Interfaces[0].L3Device() != "ds-tun" {
		t.Errorf("got %+v", c)
	}
}

// TestPortPlace: a port says where it is written.
func TestPortPlace(t *testing.T) {
	c, _, _ := openwrt("config fastpath main\n\n\nconfig port\n\toption device eth0\n").load(t)
	if len(c.Ports) != 1 || c.Ports[0].Pos.Line != 4 {
		t.Errorf("got %+v", c.Ports)
	}
}
