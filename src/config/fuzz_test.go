// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"
)

// FuzzLoad: whatever the three files hold, loading ends; strict and lenient
// loading report the same; and what comes out keeps the promises of the types.
func FuzzLoad(f *testing.F) {
	for _, c := range portCases {
		f.Add("config fastpath main\n"+c.text, networkFile, firewallFile)
	}
	for _, c := range policyCases {
		f.Add(c.text, networkFile, firewallFile)
	}
	for _, c := range mainCases {
		f.Add("config fastpath main\n"+c.text, "", "")
	}
	f.Fuzz(func(t *testing.T, fastpath, network, firewall string) {
		c, _, _ := files{"fastpath": fastpath, "network": network, "firewall": firewall}.load(t)
		m := c.Main
		if m.HookNumber < 2 || m.CTMark == 0 || m.CTMark&(m.CTMark-1) != 0 {
			t.Errorf("main %+v", m)
		}
		for _, p := range c.Ports {
			if (len(p.Networks) == 0) == (p.Device == "") {
				t.Errorf("port %+v has not exactly one of networks and device", p)
			}
		}
		names := map[string]string{}
		for _, p := range c.Policies {
			for _, family := range p.SetFamilies() {
				if is := names[p.SetName(family)]; is != "" && is != family {
					t.Errorf("set %s is of two families", p.SetName(family))
				}
				names[p.SetName(family)] = family
			}
		}
	})
}
