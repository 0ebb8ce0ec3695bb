// SPDX-License-Identifier: Apache-2.0

package uci

import "fmt"

// open makes the section the current one: a new one, or the one that has the
// name already.
func (p *parser) open(kind, name string, line int) (reason string) {
	if name == "" {
		p.section = &Section{Type: kind, Name: p.pkg.autoName(kind), Anonymous: true, Line: line}
		p.pkg.Sections = append(p.pkg.Sections, p.section)
		return ""
	}
	old := p.pkg.find(name)
	if old == nil {
		p.section = &Section{Type: kind, Name: name, Line: line}
		p.pkg.Sections = append(p.pkg.Sections, p.section)
		return ""
	}
	if old.Type != kind && p.mode == Strict {
		return typeChanged
	}
	if len(old.Type) != len(kind) {
		// libuci makes a new section then, and that one is named.
		old.Anonymous = false
	}
	old.Type = kind
	p.section = old
	return ""
}

func (p *Package) find(name string) *Section {
	for _, s := range p.Sections {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// autoName is the name of the next section, if it is anonymous: its number and
// 16 bits of D. J. Bernstein's hash of its type.
func (p *Package) autoName(kind string) string {
	hash := uint32(5381)
	for i := range len(kind) {
		hash = hash*33 + uint32(kind[i])
	}
	return fmt.Sprintf("cfg%02x%04x", len(p.Sections)+1, hash&0xffff)
}

// set gives the option one value in the place that the option has. An empty
// value sets nothing.
func (s *Section) set(name string, v Value) {
	if v.Text == "" {
		return
	}
	o := s.Option(name)
	if o == nil {
		o = &Option{Name: name}
		s.Options = append(s.Options, o)
	}
	o.List, o.Values = false, []Value{v}
}

// add appends to a list; an option becomes its first item.
func (s *Section) add(name string, v Value) {
	o := s.Option(name)
	if o == nil {
		o = &Option{Name: name}
		s.Options = append(s.Options, o)
	}
	o.List, o.Values = true, append(o.Values, v)
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

func isName(s string) bool { return all(s, isAlnum) }

func isPackageName(s string) bool {
	return all(s, func(c byte) bool { return c == '-' || isAlnum(c) })
}

func isType(s string) bool {
	return all(s, func(c byte) bool { return c > ' ' && c <= '~' })
}

func all(s string, valid func(byte) bool) bool {
	for i := range len(s) {
		if !valid(s[i]) {
			return false
		}
	}
	return true
}
