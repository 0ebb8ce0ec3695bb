// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// fw4Ruleset is shaped as fw4 prints it: the table is named, emptied and
// filled again in one transaction.
const fw4Ruleset = `
table inet fw4
flush table inet fw4
table inet fw4 {
	set hosts { type ipv4_addr; }
	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state vmap { established : accept, related : accept } comment "!fw4: Handle forwarded flows"
		iifname "br-lan" jump forward_lan comment "!fw4: Handle lan IPv4/IPv6 forward traffic"
		ip saddr @hosts drop
	}
	chain forward_lan {
		oifname "wan" counter accept comment "!fw4: accept wan IPv4/IPv6 traffic"
	}
}
`

func fw4Of(t *testing.T, k *Kernel) state.FW4 {
	t.Helper()
	return observe(t, k).FW4
}

func TestFW4Generation(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	if f := fw4Of(t, k); f != (state.FW4{}) {
		t.Errorf("without fw4: %+v", f)
	}
	load(t, fw4Ruleset)
	first := fw4Of(t, k)
	if !first.Present || first.Generation == "" || first.Offload || first.Hardware {
		t.Errorf("fw4 is %+v", first)
	}
	seen := map[string]string{first.Generation: "the first load"}
	for _, c := range []struct {
		what, change string
		differs      bool
	}{
		{"nothing", "", false},
		{"an element comes", "add element inet fw4 hosts { 192.0.2.1 }", false},
		{"an element goes", "delete element inet fw4 hosts { 192.0.2.1 }", false},
		{"another table", "add table inet other; add chain inet other c; add rule inet other c accept", false},
		{"our table", "table inet fastpath { chain forward { type filter hook forward priority 10; counter; }; }", false},
		{"a reload", fw4Ruleset, true},
		{"a second reload", fw4Ruleset, true},
		{"one more rule", "add rule inet fw4 forward_lan accept", true},
		{"flush and load: the handles begin again", "flush ruleset\n" + fw4Ruleset, true},
	} {
		before := fw4Of(t, k).Generation
		if c.change != "" {
			load(t, c.change)
		}
		after := fw4Of(t, k).Generation
		if (before != after) != c.differs {
			t.Errorf("%s: generation %s, then %s", c.what, before, after)
		}
		if by, again := seen[after]; c.differs && again {
			t.Errorf("%s: generation %s again, as after %s", c.what, after, by)
		}
		seen[after] = c.what
	}
	load(t, "delete table inet fw4")
	if f := fw4Of(t, k); f.Present || f.Generation != "" {
		t.Errorf("after its end: %+v", f)
	}
}

// TestVMFW4Offload: fw4's own flowtable is seen.
func TestVMFW4Offload(t *testing.T) {
	if !needVM(t) {
		return
	}
	veth(t, "lan", "wan")
	k := newKernel(t)
	load(t, fw4Ruleset)
	load(t, "add flowtable inet fw4 ft { hook ingress priority 0; devices = { lan, wan }; counter; }")
	if f := fw4Of(t, k); !f.Present || !f.Offload || f.Hardware {
		t.Errorf("fw4 is %+v", f)
	}
	// Ours beside it, over the same devices, and theirs stays.
	want := table(state.NumberIngress, "lan", "wan")
	apply(t, k, state.ReplaceTable{Table: want})
	must(t, k.Cleanup())
	if f := fw4Of(t, k); !f.Offload {
		t.Errorf("after our cleanup fw4 is %+v", f)
	}
}

// TestHardwareFlag: no virtual device can do hardware offload, so the answer
// of a kernel that has one is made by hand.
func TestHardwareFlag(t *testing.T) {
	for flags, want := range map[uint32]bool{0: false, flowtableCounter: false, flowtableHardware: true, 3: true} {
		w := writer{b: nfHeader(1, 0)}
		w.str(nftaFlowtableTable, fw4Name)
		w.be32(nftaFlowtableFlags, flags)
		f := readFlowtable(w.b)
		if f.table != fw4Name || f.family != unix.NFPROTO_INET || (f.flags&flowtableHardware != 0) != want {
			t.Errorf("flags %d: %+v", flags, f)
		}
	}
}
