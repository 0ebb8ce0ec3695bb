// SPDX-License-Identifier: Apache-2.0

// Package uci reads the file language of OpenWrt's Unified Configuration
// Interface into sections and options with their lines, and writes it back.
//
// It follows libuci (openwrt/uci, file.c) to the byte, oddities included: what
// `uci` accepts is accepted with the same result, and what it refuses is
// refused at the same line and byte for the same reason. The tests hold that
// against recorded answers of the real program.
package uci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Mode says what happens at an error.
type Mode int

const (
	// Strict ends at the first error with nothing, as the uci command and LuCI do.
	Strict Mode = iota
	// Lenient reports every error and keeps the good lines, as shell services
	// (config_load) and netifd do.
	Lenient
)

// Package is one configuration file.
type Package struct {
	Name     string // the file's base name
	File     string // its path
	Sections []*Section
}

// Section is one config section. An anonymous section has a generated name too
// (cfgXXXXXX); it depends on the section's place and type.
type Section struct {
	Type      string
	Name      string
	Anonymous bool
	Line      int // where the section was opened first
	Options   []*Option
}

// Option is one option or list. A plain option has exactly one value.
type Option struct {
	Name   string
	List   bool
	Values []Value
}

// Value is one value, never empty unless it stands in a list. It may hold any
// byte but NUL.
type Value struct {
	Text string
	Line int // where its statement began
}

// Option finds the option of that name; nil if there is none.
func (s *Section) Option(name string) *Option {
	for _, o := range s.Options {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// Error is one fault. Line is libuci's count of completed lines, so it is one
// less than an editor shows when the file's last line has no newline. Byte is the
// offset in the statement's text at which the reader stood.
type Error struct {
	File   string
	Line   int
	Byte   int
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason) }

// Errors are all faults of a file in order, one a line when printed.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Load reads the package of that name from the first directory that has it
// (/var/run/uci before /etc/config, as libuci's conf2dir), without regard for
// uncommitted changes. When no directory has it, the error is fs.ErrNotExist; for
// a file that can't be read it is an fs.PathError; faults in the text are Errors,
// and in Lenient mode the package comes with them.
// libuci's shared lock is not taken: its writers rename a finished file into place.
func Load(name string, mode Mode, dirs ...string) (*Package, error) {
	err := os.ErrNotExist
	for _, dir := range dirs {
		file := filepath.Join(dir, name)
		if _, err = os.Stat(file); err == nil {
			return ReadFile(file, mode)
		}
	}
	return nil, fmt.Errorf("configuration %s: %w", name, err)
}

var errNotRegular = errors.New("not a regular file")

// ReadFile reads one file; its base name is the package's name. Errors are as Load's.
func ReadFile(file string, mode Mode) (*Package, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("configuration: %w", &fs.PathError{Op: "read", Path: file, Err: errNotRegular})
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	p, faults := Parse(file, data, mode)
	if len(faults) > 0 {
		return p, faults
	}
	return p, nil
}
