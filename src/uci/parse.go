// SPDX-License-Identifier: Apache-2.0

package uci

import "path/filepath"

// parser builds a Package from statements.
type parser struct {
	text
	mode    Mode
	pkg     *Package
	section *Section // the one that options go to
}

// Parse reads data, the content of file. In Strict mode it ends at the first
// error, and the package is nil; in Lenient mode it is what the good lines say.
func Parse(file string, data []byte, mode Mode) (*Package, Errors) {
	p := parser{
		text: text{rest: data},
		mode: mode,
		pkg:  &Package{Name: filepath.Base(file), File: file},
	}
	var faults Errors
	for len(p.rest) > 0 {
		reason := tooLong
		if p.next() {
			reason = p.statements()
		}
		if reason == "" {
			continue
		}
		faults = append(faults, &Error{File: file, Line: p.line, Byte: p.pos, Reason: reason})
		if mode == Strict || reason == tooLong {
			return nil, faults
		}
	}
	return p.pkg, faults
}

// statements reads all statements of the text, up to the first error.
func (p *parser) statements() (reason string) {
	p.skipSpace()
	for reason == "" {
		begin := p.pos
		for begin < len(p.buf) && isBlank(p.buf[begin]) {
			begin++
		}
		end := begin
		for end < len(p.buf) && !isBlank(p.buf[end]) {
			end++
		}
		if begin == end || p.buf[begin] == '#' {
			return ""
		}
		switch string(p.buf[begin:end]) {
		case "p", "package":
			reason = p.packageLine(end)
		case "c", "config":
			reason = p.configLine(end)
		case "o", "option":
			reason = p.optionLine(end, false)
		case "l", "list":
			reason = p.optionLine(end, true)
		default:
			reason = badCommand
		}
	}
	return reason
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// enter goes behind the keyword of kind that ends at end.
func (p *parser) enter(kind string, end int) (reason string) {
	if end == len(p.buf) {
		return kind + noName
	}
	p.pos = end + 1
	return ""
}

// packageLine checks a package statement. The name of a package is its file's,
// so it has no effect.
func (p *parser) packageLine(end int) (reason string) {
	if reason = p.enter("package", end); reason != "" {
		return reason
	}
	if _, reason = p.name(true, isPackageName); reason != "" {
		return reason
	}
	return p.end()
}

func (p *parser) configLine(end int) (reason string) {
	line := p.here()
	if reason = p.enter("config", end); reason != "" {
		return reason
	}
	kind, reason := p.word()
	switch {
	case reason != "":
		return reason
	case kind == "":
		return tooFew
	case !isType(kind):
		return badType
	}
	name, reason := p.name(false, isName)
	if reason != "" {
		return reason
	}
	if reason = p.end(); reason != "" {
		return reason
	}
	return p.open(kind, name, line)
}

func (p *parser) optionLine(end int, list bool) (reason string) {
	if p.section == nil {
		return orphan
	}
	line := p.here()
	if reason = p.enter("option", end); reason != "" {
		return reason
	}
	name, reason := p.name(true, isName)
	if reason != "" {
		return reason
	}
	value, reason := p.word()
	if reason != "" {
		return reason
	}
	if reason = p.end(); reason != "" {
		return reason
	}
	if list {
		p.section.add(name, Value{value, line})
	} else {
		p.section.set(name, Value{value, line})
	}
	return ""
}

// name reads a word that is a name, if there is one.
func (p *parser) name(required bool, valid func(string) bool) (name, reason string) {
	name, reason = p.word()
	switch {
	case reason != "":
		return "", reason
	case name == "" && required:
		return "", tooFew
	case name != "" && !valid(name):
		return "", badName
	}
	return name, ""
}

// end takes the end of a statement. In Lenient mode one word too many is
// passed over, and a second one is taken for the next statement.
func (p *parser) end() (reason string) {
	extra, reason := p.word()
	if reason == "" && extra != "" && p.mode == Strict {
		return tooMany
	}
	return reason
}
