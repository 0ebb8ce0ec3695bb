// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"
)

// width is what a terminal shows of a line.
const width = 110

var started = time.Now()

func heading(format string, args ...any) {
	fmt.Printf("\n== %s  [%.0f s]\n", fmt.Sprintf(format, args...), time.Since(started).Seconds())
}

// indent sets a program's output off from ours, and continues long lines.
func indent(text string) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		for mark := "   | "; ; mark = "   |     " {
			head, rest := breakLine(line, width-len(mark))
			b.WriteString(strings.TrimRight(mark+head, " ") + "\n")
			if line = rest; line == "" {
				break
			}
		}
	}
	return b.String()
}

// breakLine divides a line that is longer than room at its last fitting
// space; a longer word stays whole.
func breakLine(line string, room int) (head, rest string) {
	if len(line) <= room {
		return line, ""
	}
	at := strings.LastIndexByte(line[:room+1], ' ')
	if at <= 0 {
		if at = strings.IndexByte(line[room:], ' ') + room; at < room {
			return line, ""
		}
	}
	return line[:at], strings.TrimLeft(line[at:], " ")
}
