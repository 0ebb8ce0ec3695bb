// SPDX-License-Identifier: Apache-2.0

package uci

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestExport(t *testing.T) {
	in := "c t\nl a \"it's\"\nl a ''\no b 'x\\\ny'\nconfig my-type.v2 s\nconfig a\"'\"b\n"
	want := "package net\n" +
		"\nconfig t\n\tlist a 'it'\\''s'\n\tlist a ''\n\toption b 'x\\\ny'\n" +
		"\nconfig my-type.v2 's'\n" +
		"\nconfig a'\\''b\n\n"
	p, faults := Parse("/etc/config/net", []byte(in), Strict)
	if faults != nil {
		t.Fatal(faults)
	}
	if got := export(t, p); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	empty, _ := Parse("empty", nil, Strict)
	if got := export(t, empty); got != "package empty\n\n" {
		t.Errorf("an empty package is %q", got)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, fs.ErrClosed }

func TestExportSaysThatItFailed(t *testing.T) {
	p, _ := Parse("t", []byte(s), Strict)
	if err := Export(brokenPipe{}, p); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLoad(t *testing.T) {
	config, override := t.TempDir(), t.TempDir()
	write(t, filepath.Join(config, "a"), "config t a\n")
	write(t, filepath.Join(config, "b"), "config t b\noption x 1\n")
	write(t, filepath.Join(override, "b"), "config u b\n")
	write(t, filepath.Join(config, "bad"), "config t s\njunk\n")
	if err := os.Mkdir(filepath.Join(config, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}

	for name, want := range map[string]string{
		"a": "package a\n\nconfig t 'a'\n\n",
		"b": "package b\n\nconfig u 'b'\n\n", // the override alone, nothing merged
	} {
		p, err := Load(name, Strict, override, config)
		if err != nil {
			t.Fatal(err)
		}
		if got := export(t, p); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if p, err := Load("missing", Strict, override, config); p != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v, %v", p, err)
	}
	if p, err := Load("dir", Strict, override, config); p != nil || err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory: %v, %v", p, err)
	}
	if p, err := Load("a", Strict, filepath.Join(config, "a"), config); p == nil || err != nil {
		t.Errorf("an override that isn't a directory: %v, %v", p, err)
	}

	bad := filepath.Join(config, "bad")
	want := Errors{{File: bad, Line: 2, Byte: 0, Reason: badCommand}}
	for _, mode := range []Mode{Strict, Lenient} {
		p, err := Load("bad", mode, override, config)
		var faults Errors
		if !errors.As(err, &faults) || !reflect.DeepEqual(faults, want) {
			t.Errorf("mode %d: error %v", mode, err)
		}
		if (p != nil) != (mode == Lenient) {
			t.Errorf("mode %d: package %v", mode, p)
		}
	}
}

// TestReread: what was exported, read and exported again is the same.
func TestReread(t *testing.T) {
	for _, c := range parseCases {
		if p, _ := Parse("t", []byte(c.in), Strict); p != nil {
			reread(t, p)
		}
	}
}

// reread checks that the package survives being written and read. A type that
// the language gives a meaning to is beyond its own quoting.
func reread(t *testing.T, p *Package) {
	t.Helper()
	for _, sec := range p.Sections {
		if bytes.ContainsAny([]byte(sec.Type), `'"\#;`) {
			return
		}
	}
	once := export(t, p)
	again, faults := Parse("t", []byte(once), Strict)
	if faults != nil {
		t.Fatalf("export can't be read: %v\n%s", faults, once)
	}
	if twice := export(t, again); twice != once {
		t.Fatalf("export changed:\n%s\nbecame\n%s", once, twice)
	}
}
