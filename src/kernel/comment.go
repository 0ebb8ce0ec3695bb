// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"strconv"
	"strings"

	"fastpath/src/state"
)

// A rule's comment says what the rule is, in the syntax of state.Rule: by that
// it is known again. Those that hand flows on also carry the generation. The
// names in it stand in single quotes: nft prints a comment in double quotes,
// knows no escape in them, and somebody may load again what it printed.
const (
	commentPrefix = state.TableName + ": "
	generation    = " (generation "
	commentMax    = 127 // NFTNL_UDATA_COMMENT_MAXLEN without the NUL: nft shows no longer one
)

// single turns the quotes of strconv.Quote into single ones.
var single = strings.NewReplacer(`\\`, `\\`, `\"`, `\x22`, `"`, `'`)

func comment(r state.Rule, gen string) string {
	s := commentPrefix + single.Replace(r.String())
	if r.Verdict.Hands() && gen != "" {
		s += generation + gen + ")"
	}
	return s
}

// readComment is the reverse of comment.
func readComment(s string) (r state.Rule, gen string, ok bool) {
	s, ok = strings.CutPrefix(s, commentPrefix)
	if !ok {
		return r, "", false
	}
	s, gen, _ = strings.Cut(s, generation)
	r, ok = parseRule(s)
	return r, strings.TrimSuffix(gen, ")"), ok
}

// parseRule is the reverse of state.Rule's String in single quotes.
func parseRule(s string) (state.Rule, bool) {
	var r state.Rule
	verdicts := []state.Verdict{state.Count, state.Return, state.Add}
	if at := strings.Index(s, state.MarkPrefix); at >= 0 { // ends in Return, too
		v := state.Verdict(s[at:])
		if _, ok := markBit(v); !ok {
			return r, false
		}
		verdicts = []state.Verdict{v}
	}
	for _, v := range verdicts {
		if s == string(v) {
			return state.Rule{Verdict: v}, true
		}
		if match, ok := strings.CutSuffix(s, " "+string(v)); ok {
			r, ok = parseMatch(match)
			r.Verdict = v
			// Only what prints the same again was understood.
			return r, ok && single.Replace(r.String()) == s
		}
	}
	return r, false
}

func parseMatch(s string) (r state.Rule, ok bool) {
	for _, k := range []state.Key{state.KeyHelper, state.KeySecpath, state.KeyIPsec} {
		if s == string(k)+" exists" {
			return state.Rule{Key: k}, true
		}
	}
	if kind, _, found := strings.Cut(strings.TrimPrefix(s, "iifname @"), " oifname @"); found {
		return state.Rule{Key: state.KeyEngine, Value: kind}, true
	}
	for _, k := range []state.Key{state.KeyL4Proto, state.KeyCtState, state.KeyMark, state.KeyCtMark, state.KeyIif, state.KeyOif} {
		value, found := strings.CutPrefix(s, string(k)+" ")
		if !found {
			continue
		}
		if k == state.KeyCtMark {
			value, ok = strings.CutSuffix(value, " != 0")
			return state.Rule{Key: k, Value: value}, ok
		}
		value, not := strings.CutPrefix(value, "!= ")
		if k == state.KeyIif || k == state.KeyOif {
			name, err := strconv.Unquote(`"` + strings.TrimSuffix(strings.TrimPrefix(value, "'"), "'") + `"`)
			return state.Rule{Key: k, Not: not, Value: name}, err == nil
		}
		return state.Rule{Key: k, Not: not, Value: value}, true
	}
	return r, false
}

// userData is nft's own form of a rule's comment: type 0, length, text and
// NUL (libnftnl's udata.h, NFTNL_UDATA_RULE_COMMENT).
func userData(comment string) ([]byte, error) {
	if len(comment) > commentMax {
		return nil, fmt.Errorf("rule %q is longer than the %d bytes of a comment", comment, commentMax)
	}
	b := append([]byte{0, byte(len(comment) + 1)}, comment...)
	return append(b, 0), nil
}

// readUserData finds the comment in a rule's user data, which may be anybody's.
func readUserData(b []byte) string {
	for len(b) >= 2 && len(b) >= 2+int(b[1]) {
		value := b[2 : 2+int(b[1])]
		if b[0] == 0 {
			return text(value)
		}
		b = b[2+len(value):]
	}
	return ""
}
