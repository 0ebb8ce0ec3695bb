// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// TestObserveSetters: tables of others whose rules set what a class is told by.
func TestObserveSetters(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	want := func(what string, tables ...state.Setter) {
		t.Helper()
		if got := observe(t, k).Setters; !slices.Equal(got, tables) {
			t.Errorf("%s: %+v, want %+v", what, got, tables)
		}
	}
	want("nothing")
	load(t, fw4Ruleset)
	load(t, `table inet other { chain c { ip dscp cs1 accept; meta mark 1 accept; ct mark 1 accept; ip ttl set 64; tcp dport set 80; }; }`)
	want("rules that only look")
	load(t, `add rule inet fw4 forward_lan ip dscp set cs1 comment "!fw4: mine"`)
	want("what fw4 made of its configuration")
	load(t, `add rule inet fw4 forward_lan meta mark set 1 comment "a file in /etc/nftables.d"`)
	fw4 := state.Setter{Table: "inet fw4", Mark: true}
	want("what a file added to it", fw4)
	load(t, `table inet fastpath { chain c { ct mark set 1; }; }`)
	want("ours", fw4)
	load(t, `table inet dscptag { chain c { ip dscp set af42 counter; ct mark set 128; meta priority set 0x10011; }; }
		table ip a { chain c { ct mark set 1; }; }
		table ip6 b { chain c { ip6 dscp set cs1; }; }
		table inet c { chain c { meta priority set 0x10011; }; }`)
	want("others", state.Setter{Table: "inet c", Priority: true}, state.Setter{Table: "inet dscptag", DSCP: true, Mark: true, Priority: true},
		fw4, state.Setter{Table: "ip a", Mark: true}, state.Setter{Table: "ip6 b", DSCP: true})
	load(t, "delete table ip a; delete table inet dscptag; delete table inet c; delete table ip6 b")
	want("they are gone", fw4)
}

// TestTargets: iptables-nft has its own expressions, and isn't here.
func TestTargets(t *testing.T) {
	for target, want := range map[string]state.Setter{
		"DSCP": {DSCP: true}, "TOS": {DSCP: true}, "MARK": {Mark: true}, "CONNMARK": {Mark: true}, "CLASSIFY": {Priority: true}, "REJECT": {},
	} {
		var w writer
		w.str(unix.NFTA_EXPR_NAME, "target")
		w.nest(unix.NFTA_EXPR_DATA, func() { w.str(unix.NFTA_TARGET_NAME, target) })
		var got state.Setter
		if readSetting(w.b, &got); got != want {
			t.Errorf("%s: %+v, want %+v", target, got, want)
		}
	}
}
