// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"

	"fastpath/src/uci"
)

// defaults is Main when nothing is written.
var defaults = Main{
	Hook:             HookAuto,
	HookNumber:       2,
	CTMark:           0x40000000,
	SourceValidation: ValidationOff,
	Counters:         true,
}

// maxDefer is far beyond what any classifier looks at.
const maxDefer = 65535

// fastpath reads our own file, the section main first because others depend
// on it. network says that there is a network file.
func (f *findings) fastpath(d Dirs, c *Config, network bool) {
	c.Main = defaults
	p := f.own(d, "fastpath")
	if p == nil {
		return
	}
	main := f.main(p, c)
	count := map[string]int{}
	for _, us := range p.Sections {
		s := &section{Section: us, findings: f, file: p.File}
		name := us.Name
		if us.Anonymous { // as uci show prints it
			name = fmt.Sprintf("@%s[%d]", us.Type, count[us.Type])
		}
		count[us.Type]++
		switch us.Type {
		case "fastpath":
		case "port":
			c.readPort(s, network)
		case "policy":
			c.readPolicy(s, name)
		case "drop":
			c.readDrop(s, name)
		default:
			s.problem(s.pos(""), "unknown section type %s; it can be fastpath, port, policy or drop", us.Type)
		}
	}
	if main != nil {
		c.checkMark(main)
	}
	f.checkOrder(c.Policies)
}

// main reads the one section fastpath, nil if there is none. Its name is fixed
// because scripts and LuCI address it by that; a second one can only be one with
// another name, since two of the same name are one section.
func (f *findings) main(p *uci.Package, c *Config) (main *section) {
	wrong := false
	for _, us := range p.Sections {
		if us.Type != "fastpath" {
			continue
		}
		s := &section{Section: us, findings: f, file: p.File}
		if us.Anonymous || us.Name != "main" {
			s.problem(s.pos(""), "the section fastpath must be named 'main', and there is only one")
			wrong = true
			continue
		}
		main = s
		c.readMain(s)
	}
	if main == nil && !wrong {
		f.notice(Pos{File: p.File}, "there is no section fastpath 'main', so nothing is enabled")
	}
	return main
}

func (c *Config) readMain(s *section) {
	m := Main{
		Pos:              s.pos(""),
		Enabled:          s.flag("enabled", false, false),
		Hook:             s.choice("hook", HookOff, HookAuto, HookEarly, HookIngress, HookOff),
		HookNumber:       s.number("hook_number", defaults.HookNumber, defaults.HookNumber, 0, 255),
		CTMark:           s.number("ct_mark", defaults.CTMark, defaults.CTMark, 0, 1<<32-1),
		SourceValidation: s.choice("source_validation", ValidationOff, ValidationOff, ValidationLoose, ValidationStrict),
		Counters:         s.flag("counters", true, true),
		// The wish to wait can't be honoured by not waiting.
		DeferPackets: s.number("defer_packets", 0, 1, 0, maxDefer),
	}
	s.rest()
	if m.HookNumber < 2 {
		s.problem(s.pos("hook_number"), "hook_number is %d, but 0 is ingress and 1 is egress", m.HookNumber)
		m.HookNumber = defaults.HookNumber
	}
	if bits.OnesCount32(m.CTMark) != 1 {
		s.problem(s.pos("ct_mark"), "ct_mark is %#x; it must be exactly one bit", m.CTMark)
		m.CTMark = defaults.CTMark
	}
	if s.has("hook_number") && (m.Hook == HookIngress || m.Hook == HookOff) {
		s.notice(s.pos("hook_number"), "hook_number has no effect with hook %s", m.Hook)
	}
	c.Main = m
}

// checkMark says when the mark is written, but no port has an engine that takes it.
func (c *Config) checkMark(s *section) {
	if s.has("ct_mark") && !slices.ContainsFunc(c.Ports, Port.hasEngine) {
		s.notice(s.pos("ct_mark"), "ct_mark has no effect while no port has engine xdp or afxdp")
	}
}

// readDrop reads a drop section.
func (c *Config) readDrop(s *section, name string) {
	d := Drop{Pos: s.pos(""), Name: name}
	d.Sources = parseAll(s, "source", "an address or a prefix from /1 on", parseSource)
	if file, ok := s.text("file"); ok {
		d.File = s.listFile(file)
	}
	s.rest()
	if !s.has("source") && !s.has("file") {
		s.notice(d.Pos, "drop section '%s' has neither source nor file, so nothing is dropped", name)
	}
	c.Drops = append(c.Drops, d)
}

// listFile checks the path of a file with addresses. It may come later.
func (s *section) listFile(file string) string {
	if !filepath.IsAbs(file) {
		s.problem(s.pos("file"), "file '%s' must be an absolute path", file)
		return ""
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		s.notice(s.pos("file"), "file '%s' can't be read now: %v", file, errors.Unwrap(err))
	case !info.Mode().IsRegular():
		s.problem(s.pos("file"), "file '%s' is not a regular file", file)
		return ""
	}
	return file
}
