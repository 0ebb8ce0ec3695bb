// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"strings"
	"testing"

	"fastpath/src/itest/topo"
)

// wanTables are what mwan3 and pbr both make: a routing table for each WAN,
// with the LAN in it.
const wanTables = `
	for t in 1 2; do ip route add 192.168.1.0/24 dev br-lan table $t; done
	ip route add default via ` + topo.ProviderWANv4 + ` dev wan table 1
	ip route add default via ` + topo.ProviderWAN2v4 + ` dev wan2 table 2
`

// mwan3 marks connections, and its rules look at the mark of all packets, and
// at the device by which answers come. Here host1 is to go by wan2, host2 by wan.
const mwan3 = wanTables + `
	ip rule add pref 1001 iif wan lookup 1
	ip rule add pref 1002 iif wan2 lookup 2
	ip rule add pref 2001 fwmark 0x100/0x3f00 lookup 1
	ip rule add pref 2002 fwmark 0x200/0x3f00 lookup 2
	nft -f - <<'X'
table ip ways { chain prerouting { type filter hook prerouting priority mangle;
	meta mark set ct mark and 0x3f00
	meta mark and 0x3f00 == 0 ip saddr ` + topo.Host1v4 + ` meta mark set 0x200
	meta mark and 0x3f00 == 0 ip saddr ` + topo.Host2v4 + ` meta mark set 0x100
	meta mark and 0x3f00 != 0 ct mark set meta mark
}; }
X
`

// pbr marks the packets of the originator only, and answers have no mark.
const pbr = wanTables + `
	ip rule add pref 29998 fwmark 0x20000/0xff0000 lookup 2
	nft -f - <<'X'
table ip ways { chain prerouting { type filter hook prerouting priority mangle;
	iifname "br-lan" ip saddr ` + topo.Host1v4 + ` meta mark set 0x20000
}; }
X
`

const noPolicies = `set +e
	ip rule del pref 1001; ip rule del pref 1002; ip rule del pref 2001; ip rule del pref 2002; ip rule del pref 29998
	ip rule del pref 100
	ip route flush table 1; ip route flush table 2
	nft delete table ip ways; true`

// TestGapPolicies: flows whose line a policy chooses are accelerated, by that line.
func TestGapPolicies(t *testing.T) {
	if !oneKernel(t) {
		return
	}
	r := build(t, topo.TwoWANs)
	r.countArrivals(t)
	r.start(t)
	r.settled(t)
	for _, c := range []struct{ name, policies, host1, host2 string }{
		{"no policies", "true", "line", "line"},
		{"mwan3", mwan3, "line2", "line"},
		{"pbr", pbr, "line2", "line"},
	} {
		r.Router.Run(t, c.policies)
		s1 := r.stream(t, r.Host1, topo.Serverv4, 5000)
		r.by(t, s1, c.host1)
		r.fast(t, s1, c.name+", host1")
		r.by(t, s1, c.host1)
		s1.End()
		s2 := r.stream(t, r.Host2, topo.Serverv4, 5001)
		r.by(t, s2, c.host2)
		r.fast(t, s2, c.name+", host2")
		r.by(t, s2, c.host2)
		s2.End()
		r.Router.Sh(noPolicies)
	}
	r.Router.Run(t, "ip rule add pref 100 tos 0x10 lookup 2")
	r.eventually(t, "a rule that can't be verified ends all acceleration", func() bool { return r.status(t).Report.Hook == "off" })
	if why := r.status(t).Report.HookReason; !strings.Contains(why, "100: tos 0x10 lookup 2") {
		t.Errorf("the reason doesn't name the rule: %s", why)
	}
	r.Router.Run(t, "ip rule del pref 100")
	r.settled(t)
}
