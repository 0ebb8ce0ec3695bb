// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// TestReadable: what a file holds can neither break a reason's line nor write to
// the terminal, and a long value is cut.
func TestReadable(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for value, want := range map[string]string{
		"soon":         "soon",
		"küche → \\'":  "küche → \\'",
		"a\nb\r\tc":    `a\nb\r\tc`,
		"\x1b[31mred":  `\x1b[31mred`,
		"\x9b1m\xff":   `\x9b1m\xff`,
		"\u009b\u202e": `\u009b\u202e`,
		"\ufffd":       "\ufffd",
		long:           long[:maxQuoted] + "...",
	} {
		var f findings
		f.problem(Pos{"fastpath", 1}, "hook is '%s'", value)
		f.notice(Pos{"fastpath", 1}, "hook is '%s'", value)
		want = "fastpath:1: hook is '" + want + "'"
		if got := f.problems[0].String(); got != want {
			t.Errorf("problem %q, want %q", got, want)
		}
		if got := f.notices[0].String(); got != want {
			t.Errorf("notice %q, want %q", got, want)
		}
	}
}
