// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

// listed is what nft prints for everyRule, one by one.
var listed = []string{
	`meta l4proto != { tcp, udp } return`,
	`ct state != established return`,
	`counter packets 0 bytes 0`,
	`meta mark != 0x00000000 return`,
	`meta mark 0x00000010 return`,
	`ct mark & 0x40000000 != 0x00000000 return`,
	`ct helper != "-" return`,
	`meta ipsec exists return`,
	`rt ipsec exists return`,
	`iifname "lan" return`,
	`oifname != "wan" return`,
	`iifname @afxdp oifname @afxdp ct mark set ct mark | 0x40000000 return`,
}

// TestRulesAsNftReadsThem hands our own encoding to the kernel and lets nft,
// which knows nothing of us, say what it means.
func TestRulesAsNftReadsThem(t *testing.T) {
	testkit.Need(t, has("nft"), "needs nft")
	inNamespace(t)
	k := newKernel(t)
	rules, lines := everyRule[:len(listed)], listed
	if !observe(t, k).IPsec.OK {
		t.Log("this kernel has no IPsec: without its two rules")
		rules, lines = slices.Delete(slices.Clone(rules), 7, 9), slices.Delete(slices.Clone(lines), 7, 9)
	}
	c, err := k.nfnetlink()
	must(t, err)
	defer c.close()
	var b batch
	chain := forwardChain(state.TableName)
	b.addTable(chain.family, chain.table)
	b.addDevices(chain.table, state.EngineAFXDP, []string{"br-lan", "123456789012345"})
	b.addChain(chain)
	must(t, b.addRules(state.Table{Rules: rules}))
	must(t, c.commit("add rules", &b))
	var got []string
	for line := range strings.Lines(run(t, "nft list chain inet fastpath forward")) {
		if rule, text, ok := strings.Cut(strings.TrimSpace(line), " comment "); ok {
			got = append(got, rule)
			if i := len(got) - 1; i >= len(rules) || text != `"`+comment(rules[i], "")+`"` {
				t.Errorf("comment %s of %s", text, rules[i])
			}
		}
	}
	if !slices.Equal(got, lines) {
		t.Errorf("nft lists\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
	// And read back by us they are what was wanted.
	var back []state.Rule
	must(t, c.rules(unix.NFPROTO_INET, state.TableName, func() { back = nil }, func(r ruleInfo) {
		rule, _, _ := readComment(r.comment)
		back = append(back, rule)
	}))
	if !state.SameRules(back, rules) {
		t.Errorf("read back %v", back)
	}
	load(t, run(t, "nft list table inet fastpath")) // what nft lists it also takes
}

func TestRulesThatCantBe(t *testing.T) {
	for _, r := range []state.Rule{
		state.Return.When(state.Is("nonsense", "1")),
		state.Return.When(state.Is(state.KeyMark, "many")),
		state.Return.When(state.Is(state.KeyMark, "0x100000000")),
		state.Return.When(state.Is(state.KeyCtState, "old")),
		state.Return.When(state.Is(state.KeyL4Proto, "tcp", "sctp")),
		state.Return.When(state.Is(state.KeyIif, "sixteen-bytes-it")),
		{Verdict: "accept"},
		{Verdict: "ct mark set ct mark or 0x4000000 return"},
		{Verdict: "ct mark set ct mark or 0x40000000"},
	} {
		var b batch
		err := b.addRules(state.Table{Rules: []state.Rule{r}})
		if err == nil || !strings.Contains(err.Error(), "rule") {
			t.Errorf("%s: %v", r, err)
		}
	}
}
