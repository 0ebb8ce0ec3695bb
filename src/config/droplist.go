// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"time"
)

const (
	// maxSources of a family, after merging, are what a router's memory is meant for.
	maxSources = 100_000
	// gathered ranges are merged when so many have come together; a list that
	// still has half of them then is refused, whatever would follow.
	gathered    = 4 * maxSources
	toldLines   = 3   // broken lines of a file that are told; the others are counted
	longestLine = 512 // bytes
)

// Sources are ranges of addresses, both ends included, sorted, with a gap
// between any two. (A netip.Prefix takes 32 bytes, and a range can be merged.)
type Sources struct {
	V4 [][2][4]byte
	V6 [][2][16]byte
}

// DropLists reads what drop sections name.
type DropLists struct {
	sources  Sources
	drops    []Drop // that sources are of
	partial  bool
	stamps   []stamp
	problems []string
}

// stamp tells whether a file is still the one that was read.
type stamp struct {
	size     int64
	modified time.Time
	gone     bool
}

// Fill sets c.Sources and c.DropProblems. Files are read again when they or the
// sections have changed. A list that is too long, or whose file can't be read
// any more, doesn't replace the one before.
func (l *DropLists) Fill(c *Config) {
	stamps := make([]stamp, len(c.Drops))
	for i, d := range c.Drops {
		if info, err := os.Stat(d.File); d.File != "" && err == nil {
			stamps[i] = stamp{size: info.Size(), modified: info.ModTime()}
		} else {
			stamps[i].gone = d.File != ""
		}
	}
	same := reflect.DeepEqual(l.drops, c.Drops)
	if !same || !slices.Equal(stamps, l.stamps) {
		l.stamps, l.problems = stamps, nil
		l.read(c.Drops, same)
		l.drops = c.Drops
		debug.FreeOSMemory() // ranges are gathered in many times the room that they need in the end
	}
	c.Sources, c.DropProblems = l.sources, l.problems
}

// Partial says that the sources aren't all that the sections name: somebody who
// read them earlier may have others.
func (l *DropLists) Partial() bool { return l.partial }

// read reads all sections. again: they are those that the present sources are of.
func (l *DropLists) read(drops []Drop, again bool) {
	var g gather
	complete := true
	for _, d := range drops {
		for _, p := range d.Sources {
			g.add(p)
		}
		if d.File != "" {
			complete = l.file(&g, d.File) && complete
		}
	}
	g.merge()
	long := g.full || len(g.V4) > maxSources || len(g.V6) > maxSources
	l.partial = long || !complete
	switch {
	case long:
		l.say("drop sections: more than %d entries of a family; the list before stays in force", maxSources)
	case !complete && again:
		l.say("drop sections: the list before stays in force")
	default:
		l.sources = Sources{V4: slices.Clip(g.V4), V6: slices.Clip(g.V6)}
	}
}

func (l *DropLists) say(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// file adds what a file lists; false: it can't be read.
func (l *DropLists) file(g *gather, name string) bool {
	f, err := os.Open(name)
	if err != nil {
		l.say("%s: can't be read: %v", name, errors.Unwrap(err))
		return false
	}
	defer f.Close()
	broken, err := readList(f, g, func(line int, why string) { l.say("%s:%d: %s", name, line, why) })
	if broken > toldLines {
		l.say("%s: %d broken lines in all; they are left out", name, broken)
	}
	if err != nil {
		l.say("%s: can't be read: %v", name, err)
	}
	return err == nil
}

// readList reads one address or prefix a line; what follows a # is a comment. It
// tells the first broken lines, counts them all, and goes on.
func readList(r io.Reader, g *gather, tell func(line int, why string)) (broken int, err error) {
	in := bufio.NewReaderSize(r, longestLine)
	for n := 1; !g.full; n++ {
		line, err := in.ReadSlice('\n')
		why := g.line(line, err == bufio.ErrBufferFull) // before the buffer is used again
		for err == bufio.ErrBufferFull {
			_, err = in.ReadSlice('\n')
		}
		if why != "" {
			if broken++; broken <= toldLines {
				tell(n, why)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return broken, err
		}
	}
	return broken, nil
}

// line adds what a line names; else why it doesn't name anything.
func (g *gather) line(text []byte, long bool) (why string) {
	text, _, comment := bytes.Cut(text, []byte("#"))
	text = bytes.TrimSpace(text)
	if long && !comment {
		return fmt.Sprintf("the line is longer than %d bytes", longestLine)
	}
	if len(text) == 0 {
		return ""
	}
	p, ok := parseSource(string(text))
	if !ok {
		return fmt.Sprintf("'%.40s' is no address and no prefix from /1 on", text)
	}
	g.add(p)
	return ""
}

// merged sorts ranges and makes one of those that overlap or touch.
func merged[T any](ranges [][2]T, order func(a, b *T) int, next func(T) T) [][2]T {
	slices.SortFunc(ranges, func(a, b [2]T) int { return cmp.Or(order(&a[0], &b[0]), order(&a[1], &b[1])) })
	out := ranges[:0]
	for _, r := range ranges {
		if n := len(out); n > 0 {
			last := &out[n-1]
			behind := next(last[1]) // wraps around behind the last address: then all that follow are inside
			if order(&r[0], &last[1]) <= 0 || order(&r[0], &behind) == 0 {
				if order(&r[1], &last[1]) > 0 {
					last[1] = r[1]
				}
				continue
			}
		}
		out = append(out, r)
	}
	return out
}
