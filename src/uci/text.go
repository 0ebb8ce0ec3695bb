// SPDX-License-Identifier: Apache-2.0

package uci

import "bytes"

// firstSize is the size that libuci's line buffer begins with (LINEBUF in
// file.c), and maxSize the one that no router can hold any more.
const (
	firstSize = 32
	maxSize   = 1 << 29
)

// text is a line of the file, with the lines that were joined to it, and the
// place up to which it has been read.
type text struct {
	rest []byte // of the file: not read yet
	size int    // of libuci's buffer: decides what a NUL in a line hides
	line int    // completed lines so far
	buf  []byte
	pos  int
}

// next begins a new text with the next line of the file. It is false when the
// line needs too large a buffer.
func (t *text) next() (ok bool) {
	t.pos = 0
	return t.fill()
}

// fill replaces what lies behind pos by the next line of the file; nothing
// comes at its end. It is false when the line needs too large a buffer.
//
// A line that holds a NUL byte isn't understood as a line by libuci, whose
// fgets and strlen then disagree: what follows the NUL in the same read is lost,
// the next read is joined, and a read that begins with NUL counts as no line at
// all. How far one read goes depends on the buffer, which only grows.
func (t *text) fill() (ok bool) {
	t.buf = t.buf[:t.pos]
	if t.size == 0 {
		t.size = firstSize
	}
	if t.pos >= t.size-1 {
		t.size *= 2
	}
	for t.size <= maxSize {
		read := t.read(t.size - 1 - len(t.buf))
		if i := bytes.IndexByte(read, 0); i >= 0 {
			read = read[:i]
		}
		if len(read) == 0 {
			return true
		}
		t.buf = append(t.buf, read...)
		if read[len(read)-1] == '\n' {
			t.line++
			return true
		}
		t.size *= 2
	}
	return false
}

// read takes up to n bytes from the file, but no more than a line.
func (t *text) read(n int) []byte {
	n = min(n, len(t.rest))
	if i := bytes.IndexByte(t.rest[:n], '\n'); i >= 0 {
		n = i + 1
	}
	read := t.rest[:n]
	t.rest = t.rest[n:]
	return read
}

// here is the number of the line that pos is in, as an editor counts.
func (t *text) here() int {
	if n := len(t.buf); n > 0 && t.buf[n-1] == '\n' {
		return t.line
	}
	return t.line + 1
}

// cur is the byte at pos; 0 at the end.
func (t *text) cur() byte {
	if t.pos < len(t.buf) {
		return t.buf[t.pos]
	}
	return 0
}

// cut makes pos the end.
func (t *text) cut() { t.buf = t.buf[:t.pos] }

func (t *text) skipSpace() {
	for isSpace(t.cur()) {
		t.pos++
	}
}

// isSpace is C's isspace in the C locale.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
