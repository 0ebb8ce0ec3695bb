// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"

	"fastpath/src/uci"
)

// Dirs is where the configuration files are.
type Dirs struct {
	Config   string // as /etc/config
	Override string // as /var/run/uci: a file here replaces the one in Config; "" is none
}

// System is where OpenWrt has them, and where we have them on other systems.
func System() Dirs { return Dirs{Config: "/etc/config", Override: "/var/run/uci"} }

// Load reads the configuration. If anything of ours in it is wrong the error is
// Problems, all of them, and the Config means nothing: the last good one stays
// in force.
func Load(d Dirs) (Config, error) {
	c, err := LoadLenient(d)
	if err != nil {
		return Config{}, err
	}
	return c, nil
}

// LoadLenient is for a start that has no last good configuration: the error is
// the same as Load's, and the Config holds what could be read. In place of a
// value that can't be read stands the one that touches least.
func LoadLenient(d Dirs) (Config, error) {
	var f findings
	var c Config
	n := f.network(d, &c)
	f.firewall(d, &c)
	f.turboacc(d, &c)
	f.shapers(d, &c)
	f.fastpath(d, &c, n)
	c.Notices = f.notices
	if len(f.problems) == 0 {
		return c, nil
	}
	sort.SliceStable(f.problems, func(i, j int) bool { return f.problems[i].Line < f.problems[j].Line })
	return c, f.problems
}

func (d Dirs) list() []string {
	if d.Override == "" {
		return []string{d.Config}
	}
	return []string{d.Override, d.Config}
}

// own reads our file: strictly for what is wrong, leniently for the rest.
func (f *findings) own(d Dirs, name string) *uci.Package {
	p, err := uci.Load(name, uci.Strict, d.list()...)
	var first, faults uci.Errors
	if errors.As(err, &first) {
		// Strict reading finds one fault only, lenient reading misses some kinds.
		if p, err = uci.Load(name, uci.Lenient, d.list()...); errors.As(err, &faults) {
			err = nil
		}
		if !slices.ContainsFunc(faults, func(e *uci.Error) bool { return *e == *first[0] }) {
			faults = append(first, faults...)
		}
	}
	for _, e := range faults {
		f.problem(Pos{e.File, e.Line}, "%s", e.Reason)
	}
	if err != nil {
		f.unreadable(d, name, err)
	}
	return p
}

// foreign reads a file of somebody else as its owner does: leniently. It may be missing.
func (f *findings) foreign(d Dirs, name string) *uci.Package {
	p, err := uci.Load(name, uci.Lenient, d.list()...)
	var faults uci.Errors
	switch {
	case errors.As(err, &faults):
		for _, e := range faults {
			f.notice(Pos{e.File, e.Line}, "%s; read without it", e.Reason)
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		f.unreadable(d, name, err)
	}
	return p
}

func (f *findings) unreadable(d Dirs, name string, err error) {
	at := Pos{File: filepath.Join(d.Config, name)}
	if errors.Is(err, fs.ErrNotExist) {
		f.problem(at, "no such file")
		return
	}
	// The error may be about the file in Override, and names it.
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		at.File, err = path.Path, path.Err
	}
	f.problem(at, "can't be read: %v", err)
}
