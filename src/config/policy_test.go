// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"strings"
	"testing"
)

const unknownDst = "unknown option dst; a policy section has action, src, dest, proto, family, " +
	"src_ip, dest_ip, src_port, dest_port, dscp, mark, set"

const twoSets = "; one without a family has a set for IPv4, and one with a 6 at its end for IPv6"

var policyCases = []struct {
	name     string
	text     string // from line 1
	want     []Policy
	problems []string
	notices  []string
}{
	{
		name: "everything",
		text: "config policy games\noption action bypass\nlist src lan\nlist src wan\noption dest wan\noption proto 'tcp udp'\n" +
			"option family ipv4\nlist src_ip 192.168.1.7\nlist dest_ip 203.0.113.9/24\nlist src_port 1024-65535\n" +
			"list dest_port 80\nlist dest_port 443\nlist dscp ef\nlist dscp 8\noption mark 0x10/0xff\noption set games\n",
		want: []Policy{{
			Name: "games", Action: "bypass", Src: []string{"lan", "wan"}, Dest: []string{"wan"},
			Proto: []string{"tcp", "udp"}, Family: "ipv4",
			SrcIP: prefixes("192.168.1.7/32"), DestIP: prefixes("203.0.113.0/24"),
			SrcPort: []PortRange{{1024, 65535}}, DestPort: []PortRange{{80, 80}, {443, 443}},
			DSCP: []uint8{46, 8}, Mark: Mark{Set: true, Value: 0x10, Mask: 0xff}, Set: "games",
		}},
	},
	{
		name: "in order, anonymous ones by their number",
		text: "config policy\noption action accelerate\nlist src lan\nconfig policy b\noption action bypass\noption proto tcp\n" +
			"config policy\noption action accelerate\n",
		want: []Policy{
			{Name: "@policy[0]", Action: "accelerate", Src: []string{"lan"}},
			{Name: "b", Action: "bypass", Proto: []string{"tcp"}},
			{Name: "@policy[2]", Action: "accelerate"},
		},
	},
	{
		name: "one that hides the rest",
		text: "config policy a\noption action accelerate\nconfig policy b\noption action bypass\nconfig policy c\noption action bypass\n",
		want: []Policy{{Name: "a", Action: "accelerate"}, {Name: "b", Action: "bypass"}, {Name: "c", Action: "bypass"}},
		notices: []string{
			"fastpath:1: policy 'a' matches everything, so the policies after it have no effect",
		},
	},
	{
		name: "a bypass with faults stays and matches more, an accelerate is left out",
		text: "config policy a\noption action bypass\nlist src lna\nlist dst wan\nconfig policy b\noption action accelerate\nlist dst wan\n" +
			"config policy c\noption action bypas\noption set s\nconfig policy d\nlist dscp 1\n",
		want: []Policy{
			{Name: "a", Action: "bypass"},
			{Name: "c", Action: "bypass", Set: "s"},
			{Name: "d", Action: "bypass", DSCP: []uint8{1}},
		},
		problems: []string{
			"fastpath:3: zone 'lna' is unknown; the file firewall has lan, wan",
			"fastpath:4: " + unknownDst,
			"fastpath:7: " + unknownDst,
			"fastpath:9: action is 'bypas'; it can be accelerate or bypass",
			"fastpath:11: policy 'd' has no action; it can be accelerate or bypass",
		},
		notices: []string{
			"fastpath:1: policy 'a' matches everything, so the policies after it have no effect",
		},
	},
	{
		name: "values that can't be read",
		text: "config policy a\noption action accelerate\noption proto icmp\noption family ip\nlist src_ip lan\nlist dest_ip 10.0.0.0/33\n" +
			"list src_port 0\nlist dest_port 65536\nlist dest_port 20-10\nlist dscp 64\noption mark 0x100/0xff\noption set 1x\n",
		problems: []string{
			"fastpath:3: proto 'icmp' is not tcp or udp; only those are accelerated",
			"fastpath:4: family is 'ip'; it can be ipv4 or ipv6",
			"fastpath:5: src_ip 'lan' is not an address or a prefix",
			"fastpath:6: dest_ip '10.0.0.0/33' is not an address or a prefix",
			"fastpath:7: src_port '0' is not a port (1 to 65535) or a range FIRST-LAST",
			"fastpath:8: dest_port '65536' is not a port (1 to 65535) or a range FIRST-LAST",
			"fastpath:9: dest_port '20-10' is not a port (1 to 65535) or a range FIRST-LAST",
			"fastpath:10: dscp '64' is not a code point (0 to 63, or a name like cs1, af41, ef)",
			"fastpath:11: mark '0x100/0xff' is not VALUE or VALUE/MASK with the value inside the mask",
			"fastpath:12: set '1x' is no name of a set",
		},
	},
	{
		name: "ports without a protocol",
		text: "config policy a\noption action accelerate\nlist dest_port 80\nlist src_port 80\n",
		problems: []string{
			"fastpath:3: dest_port needs proto tcp or udp",
			"fastpath:4: src_port needs proto tcp or udp",
		},
	},
	{
		name: "names of sets",
		text: "config policy a\noption action accelerate\noption set games\nconfig policy b\noption action bypass\noption set games\noption family ipv6\n" +
			"config policy c\noption action accelerate\noption set games6\nconfig policy d\noption action accelerate\noption set zone-lan\n" +
			"config policy e\noption action accelerate\noption set afxdp\nconfig policy f\noption action accelerate\noption family ipv6\noption set games6\n" +
			"config policy g\noption action bypass\noption set '" + strings.Repeat("g", 255) + "'\n",
		want: []Policy{
			{Name: "a", Action: "accelerate", Set: "games"}, {Name: "b", Action: "bypass", Family: "ipv6"},
			{Name: "f", Action: "accelerate", Family: "ipv6", Set: "games6"}, {Name: "g", Action: "bypass"},
		},
		problems: []string{
			"fastpath:6: set 'games' would be ipv6 here, but policy 'a' makes it ipv4" + twoSets,
			"fastpath:10: set 'games6' would be ipv4 here, but policy 'a' makes it ipv6" + twoSets,
			"fastpath:13: set 'zone-lan' has a name that fastpath uses itself",
			"fastpath:16: set 'afxdp' has a name that fastpath uses itself",
			"fastpath:23: set '" + strings.Repeat("g", 255) + "' is no name of a set",
		},
	},
	{
		name: "families that don't meet",
		text: "config policy a\noption action accelerate\noption family ipv6\nlist src_ip 2001:db8::/32\nlist src_ip 10.0.0.1\n" +
			"config policy b\noption action accelerate\nlist src_ip 2001:db8::/32\nlist dest_ip 10.0.0.1\nlist dest_ip 10.0.0.2\n" +
			"config policy c\noption action accelerate\nlist src_ip 2001:db8::/32\nlist dest_ip 10.0.0.1\nlist dest_ip 2001:db8::1\n",
		want: []Policy{{Name: "c", Action: "accelerate", SrcIP: prefixes("2001:db8::/32"), DestIP: prefixes("10.0.0.1/32", "2001:db8::1/128")}},
		problems: []string{
			"fastpath:5: src_ip 10.0.0.1/32 is not ipv6, the policy's family",
			"fastpath:10: src_ip and dest_ip have no address family in common",
		},
	},
}

func TestPolicy(t *testing.T) {
	for _, c := range policyCases {
		t.Run(c.name, func(t *testing.T) {
			got, problems, notices := openwrt(c.text + "config fastpath main\n").load(t)
			same(t, "problems", problems, c.problems)
			same(t, "notices", notices, c.notices)
			if p := bare(got.Policies); !reflect.DeepEqual(p, c.want) {
				t.Errorf("got  %+v\nwant %+v", p, c.want)
			}
		})
	}
}

// TestZonesOutsideOpenWrt: without a file firewall there are no zones.
func TestZonesOutsideOpenWrt(t *testing.T) {
	text := "config fastpath main\nconfig policy a\n\toption action bypass\n\tlist src lan\n"
	_, problems, _ := files{"fastpath": text}.load(t)
	same(t, "problems", problems, []string{"fastpath:4: zone 'lan' is unknown, as there is no file firewall"})
}
