// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"slices"
	"strings"
	"testing"

	"fastpath/src/config"
	"fastpath/src/testkit"
	"fastpath/src/uci"
)

// all are all variants.
var all = append(slices.Clone(Variants), DSLite, PPPoEQinQ, IPIP, SixInSix, IPIPPPPoE)

// What WriteConfig writes is valid UCI, strictly read, has no problem for
// fastpath, and names the devices that the variant has.
func TestWriteConfig(t *testing.T) {
	for _, v := range all {
		dir := t.TempDir()
		if err := v.WriteConfig(dir, Engine{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"network", "firewall", "fastpath"} {
			if _, err := uci.Load(name, uci.Strict, dir); err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
		}
		c, err := config.Load(config.Dirs{Config: dir})
		if err != nil || len(c.Notices) > 0 {
			t.Errorf("%s: %v, notices %q", v.Name, err, c.Notices)
		}
		l3 := map[string]string{}
		for _, i := range c.Interfaces {
			l3[i.Name] = i.L3Device()
		}
		if !c.Main.Enabled || l3["lan"] != v.LAN() || l3["wan"] != v.WAN() || len(c.Zones) != 1+len(v.locals()) {
			t.Errorf("%s: enabled %v, l3 devices %v, zones %v", v.Name, c.Main.Enabled, l3, c.Zones)
		}
	}
}

// What an Engine asks for stands at both ports.
func TestWriteEngine(t *testing.T) {
	for _, e := range []Engine{{Kind: "xdp"}, {Kind: "afxdp", ZeroCopy: true}, {Kind: "xdp", Force: true}} {
		dir := t.TempDir()
		if err := PPPoEVLAN.WriteConfig(dir, e); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.Dirs{Config: dir})
		if err != nil || len(c.Ports) != 2 {
			t.Fatalf("%+v: %v, ports %+v", e, err, c.Ports)
		}
		for _, p := range c.Ports {
			if p.Engine != e.Kind || p.ZeroCopy != e.ZeroCopy || p.Force != e.Force {
				t.Errorf("%+v: port %+v", e, p)
			}
		}
		if c.Ports[0].Networks[0] != "lan" || c.Ports[1].Device != "wan" {
			t.Errorf("ports %+v", c.Ports)
		}
	}
}

// nft takes the rules, and they name the variant's devices and no others.
func TestRuleset(t *testing.T) {
	n := testkit.NewNetns(t, "rules")
	for _, v := range all {
		rules, err := v.Ruleset()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Sh("nft --check -f - <<'END'\n" + rules + "END\n"); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		guests, _ := v.guests()
		named := []string{v.LAN(), v.WAN(), v.Tunnel(), guests.device}
		if v.SecondWAN {
			named = append(named, "wan2")
		}
		for _, device := range []string{"br-lan", "br-lan.1", "br-lan.7", "docker0", "lan1", "wan", "wan2", "wan.35",
			"wan.100.35", "pppoe-wan", "ds-dslite", "ipip-tunnel", "tunnel"} {
			want := slices.Contains(named, device)
			if got := strings.Contains(rules, `"`+device+`"`); got != want {
				t.Errorf("%s: the rules name %s: %v, want %v", v.Name, device, got, want)
			}
		}
	}
}
