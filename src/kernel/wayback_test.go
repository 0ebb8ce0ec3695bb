// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strings"
	"testing"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

// TestWayBack: what the kernel says of the way back of packets that it forwards,
// by rules as chain forward has them.
func TestWayBack(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	testkit.Need(t, observe(t, k).FIB.OK, "rules of this kernel can't look up routes")
	want := engineTable()
	for _, m := range []state.Match{
		state.Is(state.KeyWayBack), state.IsNot(state.KeyWayBack), state.Is(state.KeyWayBackMarked), state.IsNot(state.KeyWayBackMarked),
		state.IsNot(state.KeyMark, "0/0xffffc0ff"),
	} {
		want.Rules = append(want.Rules, state.Return.When(m))
	}
	apply(t, k, state.ReplaceTable{Table: want})
	listed := run(t, "nft list table inet fastpath")
	for _, text := range []string{
		"fib saddr . iif oif exists return", "fib saddr . iif oif missing return",
		"fib saddr . mark . iif oif exists return", "fib saddr . mark . iif oif missing return",
		"meta mark & 0xffffc0ff != 0x00000000 return",
	} {
		if !strings.Contains(listed, text) {
			t.Errorf("nft doesn't list %q:\n%s", text, listed)
		}
	}
	if got := observe(t, k).Table; !state.SameRules(got.Rules, want.Rules) {
		t.Errorf("read back:\n%v\nwant\n%v", got.Rules, want.Rules)
	}
}
