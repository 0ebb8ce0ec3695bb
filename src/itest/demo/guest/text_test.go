// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestIndent(t *testing.T) {
	word := strings.Repeat("x", width)
	sixty := strings.Repeat("y", 60)
	for _, c := range []struct{ name, text, want string }{
		{"short", "a b\n", "   | a b\n"},
		{"empty line", "a\n\nb\n", "   | a\n   |\n   | b\n"},
		{"own indentation", "a\n  b\n", "   | a\n   |   b\n"},
		{"nothing", "", "   |\n"},
		{"long", sixty + " " + sixty, "   | " + sixty + "\n   |     " + sixty + "\n"},
		{"just fits", strings.Repeat("z", width-5), "   | " + strings.Repeat("z", width-5) + "\n"},
		{"long word", word + " a", "   | " + word + "\n   |     a\n"},
		{"only a long word", word, "   | " + word + "\n"},
	} {
		if got := indent(c.text); got != c.want {
			t.Errorf("%s: indent gives\n%swant\n%s", c.name, got, c.want)
		}
	}
}
