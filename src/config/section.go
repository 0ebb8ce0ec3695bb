// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strconv"
	"strings"

	"fastpath/src/uci"
)

// section reads one section of our own file. Each option that a getter was
// asked for counts as known.
type section struct {
	*uci.Section
	*findings
	file  string
	known []string
}

// pos is where the option is written; the section's place if it isn't.
func (s *section) pos(option string) Pos {
	if o := s.Option(option); o != nil {
		return Pos{s.file, o.Values[len(o.Values)-1].Line}
	}
	return Pos{s.file, s.Line}
}

func (s *section) at(v uci.Value) Pos { return Pos{s.file, v.Line} }

func (s *section) has(option string) bool { return s.Option(option) != nil }

// text is the option's one value.
func (s *section) text(option string) (v string, ok bool) {
	s.known = append(s.known, option)
	o := s.Option(option)
	if o == nil {
		return "", false
	}
	if o.List {
		s.problem(s.pos(option), "%s takes one value (option), not a list", option)
	}
	return o.Values[len(o.Values)-1].Text, !o.List
}

// texts are the values of a list. An option is split at blanks, as OpenWrt's
// services do.
func (s *section) texts(option string) []uci.Value {
	s.known = append(s.known, option)
	o := s.Option(option)
	if o == nil {
		return nil
	}
	for _, v := range o.Values {
		if strings.TrimSpace(v.Text) == "" {
			s.problem(s.at(v), "%s is empty", option)
		}
	}
	return words(o)
}

// words are the blank-separated words of all values of an option.
func words(o *uci.Option) []uci.Value {
	var all []uci.Value
	for _, v := range o.Values {
		for _, w := range strings.Fields(v.Text) {
			all = append(all, uci.Value{Text: w, Line: v.Line})
		}
	}
	return all
}

// flag reads a boolean; safe is for one that can't be read.
func (s *section) flag(option string, preset, safe bool) bool {
	if !s.has(option) {
		s.known = append(s.known, option)
		return preset
	}
	v, ok := s.text(option)
	if !ok {
		return safe
	}
	if on, ok := boolean(v); ok {
		return on
	}
	s.problem(s.pos(option), "%s is '%s'; it can be 1 or 0", option, v)
	return safe
}

// boolean reads a boolean as OpenWrt's services do (config_get_bool).
func boolean(v string) (on, ok bool) {
	switch v {
	case "1", "on", "true", "yes", "enabled":
		return true, true
	case "0", "off", "false", "no", "disabled":
		return false, true
	}
	return false, false
}

// choice reads one of some words; the first one is the default, "" is not
// written. safe is for one that can't be read.
func (s *section) choice(option, safe string, words ...string) string {
	if !s.has(option) {
		s.known = append(s.known, option)
		return words[0]
	}
	v, ok := s.text(option)
	if ok && slices.Contains(words, v) {
		return v
	}
	if ok {
		s.problem(s.pos(option), "%s is '%s'; it can be %s", option, v, oneOf(words))
	}
	return safe
}

// list is "a, b, c".
func list(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// oneOf is "a, b or c".
func oneOf(words []string) string {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// number reads a number, decimal or 0x hexadecimal, from lo to hi.
func (s *section) number(option string, preset, safe, lo, hi uint32) uint32 {
	if !s.has(option) {
		s.known = append(s.known, option)
		return preset
	}
	v, ok := s.text(option)
	if !ok {
		return safe
	}
	n, ok := parseNumber(v)
	switch {
	case !ok:
		s.problem(s.pos(option), "%s is '%s', which is no number", option, v)
	case n < lo || n > hi:
		s.problem(s.pos(option), "%s is %s; it can be %d to %d", option, v, lo, hi)
	default:
		return n
	}
	return safe
}

func parseNumber(v string) (n uint32, ok bool) {
	base := 10
	if hex, found := strings.CutPrefix(strings.ToLower(v), "0x"); found {
		base, v = 16, hex
	}
	big, err := strconv.ParseUint(v, base, 32)
	return uint32(big), err == nil
}

// rest reports the options that nothing asked for.
func (s *section) rest() {
	for _, o := range s.Options {
		if !slices.Contains(s.known, o.Name) {
			s.problem(s.pos(o.Name), "unknown option %s; a %s section has %s", o.Name, s.Type, list(s.known))
		}
	}
}
