// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
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
	f.problems = append(f.problems, Problem{at, fmt.Sprintf(format, args...)})
}

func (f *findings) notice(at Pos, format string, args ...any) {
	f.notices = append(f.notices, Problem{at, fmt.Sprintf(format, args...)})
}
