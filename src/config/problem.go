// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong, or worth saying, and where it is written.
type Problem struct {
	Pos
	Reason string
}

// String is file:line: reason.
func (p Problem) String() string {
	if p.Line == 0 { // about the file as a whole
		return p.File + ": " + p.Reason
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Reason)
}

// Problems is the error of Load: everything that is wrong, by line.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// findings collects what the reading of the files brings to light.
type findings struct {
	problems Problems
	notices  []Problem
}

func (f *findings) problem(at Pos, format string, args ...any) {
	f.problems = append(f.problems, Problem{at, readable(format, args)})
}

func (f *findings) notice(at Pos, format string, args ...any) {
	f.notices = append(f.notices, Problem{at, readable(format, args)})
}

// maxQuoted bounds in bytes what a reason repeats of a file.
const maxQuoted = 256

// readable is a reason of one line, whatever the file holds: UCI's values may be
// of any length, with newlines and a terminal's control sequences in them.
func readable(format string, args []any) string {
	for i, arg := range args {
		if s, ok := arg.(string); ok && len(s) > maxQuoted {
			args[i] = s[:maxQuoted] + "..."
		}
	}
	var b strings.Builder
	for rest := fmt.Sprintf(format, args...); rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(rest[:size])
		} else {
			escaped := strconv.Quote(rest[:size])
			b.WriteString(escaped[1 : len(escaped)-1])
		}
		rest = rest[size:]
	}
	return b.String()
}
