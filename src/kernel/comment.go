// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"strings"

	"fastpath/src/state"
)

// A rule's comment is its identity (state.Rule), after a word that says whose
// the rule is. Those that hand flows on also carry the generation.
const (
	commentPrefix = state.TableName + ": "
	generation    = " (generation "
	commentMax    = 127 // NFTNL_UDATA_COMMENT_MAXLEN without the NUL: nft shows no longer one
)

func comment(r state.Rule, gen string) string {
	s := commentPrefix + r.Identity()
	if r.Verdict.Hands() && gen != "" {
		s += generation + gen + ")"
	}
	return s
}

// readComment is the reverse of comment; of the rule only the identity is known.
func readComment(s string) (r state.Rule, gen string, ok bool) {
	s, ok = strings.CutPrefix(s, commentPrefix)
	if !ok || s == "" {
		return r, "", false
	}
	if before, has := strings.CutSuffix(s, ")"); has {
		if at := strings.LastIndex(before, generation); at >= 0 {
			s, gen = s[:at], before[at+len(generation):]
		}
	}
	return state.Rule{Read: s}, gen, true
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
