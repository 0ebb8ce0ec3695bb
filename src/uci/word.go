// SPDX-License-Identifier: Apache-2.0

package uci

// The reasons of Error. They are libuci's own words, so that a search for them
// finds the same help.
const (
	openSingle  = "EOF with unterminated '"
	openDouble  = `EOF with unterminated "`
	tooLong     = "line too long"
	tooFew      = "insufficient arguments"
	tooMany     = "too many arguments"
	badName     = "invalid character in name field"
	badType     = "invalid character in type field"
	badCommand  = "invalid command"
	orphan      = "option/list command found before the first section"
	noName      = " without name"
	typeChanged = "section of different type overwrites prior section with same name"
)

// word reads the next word of a statement, "" when the statement ends first.
// A semicolon in its place is taken: it ends the statement.
func (t *text) word() (w string, reason string) {
	t.skipSpace()
	if t.cur() == ';' {
		t.pos++
		return "", ""
	}
	start := t.pos
	var out []byte
	for {
		switch c := t.cur(); c {
		case '\'', '"':
			out, reason = t.quoted(out, c)
		case '#':
			t.cut()
		case '\\':
			out, reason = t.escaped(out)
		case ';':
			// Where libuci puts the end of a bare word it overwrites the
			// semicolon, and the rest of the line is never seen.
			if start+len(out) == t.pos {
				t.cut()
			}
			return string(out), ""
		case 0:
		default:
			out = append(out, c)
			t.pos++
		}
		if reason != "" {
			return "", reason
		}
		if c := t.cur(); c == 0 || isSpace(c) {
			break
		}
	}
	if t.cur() != 0 {
		t.pos++
	}
	return string(out), ""
}

// quoted reads up to the closing quote, over as many lines as it takes.
func (t *text) quoted(out []byte, quote byte) ([]byte, string) {
	t.pos++
	for {
		c := t.cur()
		switch {
		case c == quote:
			t.pos++
			return out, ""
		case c == 0:
			if !t.fill() {
				return nil, tooLong
			}
			if t.cur() == 0 {
				if quote == '"' {
					return nil, openDouble
				}
				return nil, openSingle
			}
		case c == '\\' && quote == '"':
			var reason string
			if out, reason = t.escaped(out); reason != "" {
				return nil, reason
			}
		default:
			out = append(out, c)
			t.pos++
		}
	}
}

// escaped reads what follows a backslash: the next byte as it is, or, at a
// line's end, nothing, and the next line takes the place of that end.
func (t *text) escaped(out []byte) ([]byte, string) {
	t.pos++
	switch c := t.cur(); {
	case c == 0, c == '\n', string(t.buf[t.pos:]) == "\r\n":
		if !t.fill() {
			return nil, tooLong
		}
		return out, ""
	default:
		t.pos++
		return append(out, c), ""
	}
}
