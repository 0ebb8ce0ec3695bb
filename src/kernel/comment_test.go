// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strings"
	"testing"

	"fastpath/src/state"
)

func TestCommentRoundTrip(t *testing.T) {
	for _, r := range append(everyRule,
		state.Return.When(state.Is(state.KeyIif, `odd "name"`)),
		state.Return.When(state.Is(state.KeyIif, `\"'\\'`)),
		state.Return.When(state.Is(state.KeyOif, "'\xff\x01é")),
		state.Add.When(state.Is(state.KeyOif, "a != b")),
		state.Add.When(state.IsNot(state.KeyMark, "0xff")),
	) {
		for _, gen := range []string{"", "0123456789abcdef"} {
			got, g, ok := readComment(comment(r, gen))
			if !r.Verdict.Hands() {
				gen = ""
			}
			if strings.Contains(comment(r, gen), `"`) {
				t.Errorf("%q: nft can't read again what it prints", comment(r, gen))
			}
			if !ok || got.Read != r.Identity() || g != gen {
				t.Errorf("%q: got %+v generation %q ok %v, want %+v %q", comment(r, gen), got, g, ok, r, gen)
			}
		}
	}
}

func TestCommentOfOthers(t *testing.T) {
	for _, s := range []string{
		"", "fastpath", "fastpath:", "fastpath: ", "counter", "!fw4: counter", "Fastpath: counter",
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
		state.Add.When(state.IsNot(state.KeyIif, "123456789012345")),
		state.Return.When(state.Is(state.KeyOif, strings.Repeat(`"`, 15))),
		state.Return.When(state.Is(state.KeyOif, strings.Repeat("\xff", 15))),
		state.Add.When(state.IsNot(state.KeyL4Proto, "tcp", "udp")),
		state.Add.When(state.IsNot(state.KeyCtMark, "0/0xffffffff")),
		state.Mark(1<<31).When(state.Is(state.KeyIif, "@"+state.EngineAFXDP), state.Is(state.KeyOif, "@"+state.EngineAFXDP)),
	} {
		if _, err := userData(comment(r, "0123456789abcdef-01234567")); err != nil {
			t.Error(err)
		}
	}
}
