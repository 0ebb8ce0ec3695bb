// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strings"
	"testing"

	"fastpath/src/state"
)

func TestCommentRoundTrip(t *testing.T) {
	for _, r := range append(everyRule,
		state.Rule{Key: state.KeyIif, Value: `odd "name"`, Verdict: state.Return},
		state.Rule{Key: state.KeyIif, Value: `\"'\\'`, Verdict: state.Return},
		state.Rule{Key: state.KeyOif, Value: "'\xff\x01é", Verdict: state.Return},
		state.Rule{Key: state.KeyOif, Value: "a != b", Verdict: state.Add},
		state.Rule{Key: state.KeyMark, Not: true, Value: "0xff", Verdict: state.Add},
	) {
		for _, gen := range []string{"", "0123456789abcdef"} {
			got, g, ok := readComment(comment(r, gen))
			if !r.Verdict.Hands() {
				gen = ""
			}
			if strings.Contains(comment(r, gen), `"`) {
				t.Errorf("%q: nft can't read again what it prints", comment(r, gen))
			}
			if !ok || got != r || g != gen {
				t.Errorf("%q: got %+v generation %q ok %v, want %+v %q", comment(r, gen), got, g, ok, r, gen)
			}
		}
	}
}

func TestCommentOfOthers(t *testing.T) {
	for _, s := range []string{
		"", "fastpath", "fastpath:", "fastpath: ", "counter", "!fw4: counter",
		"fastpath: accept", "fastpath: meta mark return",
		"fastpath: iifname @xdp oifname @xdp ct mark set ct mark or 0x40000000",
		"fastpath: iifname @xdp oifname @afxdp ct mark set ct mark or 0x40000000 return",
		"fastpath: iifname @xdp oifname @xdp ct mark set ct mark or 40000000 return",
		"fastpath: iifname eth0 return", `fastpath: iifname "eth0" return`, "fastpath: ct mark and 1 return", "fastpath: ct helper exists",
	} {
		if r, _, ok := readComment(s); ok {
			t.Errorf("%q was read as %+v", s, r)
		}
	}
}

func TestUserData(t *testing.T) {
	b, err := userData("hi")
	must(t, err)
	if string(b) != "\x00\x03hi\x00" {
		t.Errorf("user data %q", b)
	}
	if readUserData(b) != "hi" {
		t.Errorf("read %q", readUserData(b))
	}
	// Another type of TLV comes first; a truncated one is nobody's comment.
	if got := readUserData(append([]byte{7, 1, 9}, b...)); got != "hi" {
		t.Errorf("behind another: %q", got)
	}
	if got := readUserData(b[:3]); got != "" {
		t.Errorf("truncated: %q", got)
	}
	if _, err := userData(strings.Repeat("x", commentMax)); err != nil {
		t.Errorf("the longest comment: %v", err)
	}
	if _, err := userData(strings.Repeat("x", commentMax+1)); err == nil {
		t.Error("a comment that nft would not show was taken")
	}
}

// TestLongestRule: no rule that there can be is too long for its comment.
func TestLongestRule(t *testing.T) {
	for _, r := range []state.Rule{
		{Key: state.KeyIif, Not: true, Value: "123456789012345", Verdict: state.Add},
		{Key: state.KeyOif, Value: strings.Repeat(`"`, 15), Verdict: state.Return},
		{Key: state.KeyOif, Value: strings.Repeat("\xff", 15), Verdict: state.Return},
		{Key: state.KeyL4Proto, Not: true, Value: "{ tcp, udp }", Verdict: state.Add},
		{Key: state.KeyCtMark, Value: "0xffffffff", Verdict: state.Add},
		{Key: state.KeyEngine, Value: state.EngineAFXDP, Verdict: state.Mark(1 << 31)},
	} {
		if _, err := userData(comment(r, "0123456789abcdef-01234567")); err != nil {
			t.Error(err)
		}
	}
}
