// SPDX-License-Identifier: Apache-2.0

// Package layout holds the rules of the whole repository as tests: its rooms,
// who may import whom, and how long things may be.
package layout

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository, seen from this package.
const root = "../.."

// The top level: what must be there, and what may.
var (
	required = []string{"package", "src", "files", "uci", "hotplug", "go.mod", "Makefile", "README.md"}
	allowed  = []string{"LICENSE", ".ci", ".gitignore", "go.sum", ".git"}
	ignored  = []string{"build", "bench"} // made here, never committed
)

func TestTopLevel(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if !slices.Contains(slices.Concat(required, allowed, ignored), e.Name()) {
			t.Errorf("%s: nothing else belongs on the top level", e.Name())
		}
	}
	for _, name := range required {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing", name)
		}
	}
}

// sources calls f with every file of the repository, its path from the root
// with slashes, and its contents. What is ignored by git is left out.
func sources(t *testing.T, f func(path string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		if path == ".git" || slices.Contains(ignored, path) {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || strings.HasSuffix(path, ".test") {
			return nil
		}
		text, err := os.ReadFile(full)
		f(filepath.ToSlash(path), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// generated says whether a program wrote a Go file.
func generated(text []byte) bool {
	return bytes.HasPrefix(text, []byte("// Code generated "))
}

// licence is what the file's first line, after a #! line, must say; "" for
// formats without comments and for recorded data.
func licence(path string) string {
	base := filepath.Base(path)
	switch ext := filepath.Ext(base); {
	case strings.Contains(path, "/testdata/") && ext != ".common":
		return ""
	case strings.HasPrefix(path, "src/bpf/") && (ext == ".c" || ext == ".h"):
		return "GPL-2.0-only OR BSD-2-Clause"
	case slices.Contains([]string{".go", ".c", ".h", ".sh", ".init", ".service", ".common"}, ext),
		slices.Contains([]string{"Makefile", "60-fastpath", "postinst", "prerm"}, base),
		strings.HasPrefix(path, ".ci/"):
		return "Apache-2.0"
	}
	return ""
}

func TestLicenceLines(t *testing.T) {
	sources(t, func(path string, text []byte) {
		want := licence(path)
		if want == "" || generated(text) {
			return
		}
		lines := strings.SplitN(string(text), "\n", 3)
		if strings.HasPrefix(lines[0], "#!") && len(lines) > 1 {
			lines = lines[1:]
		}
		got := strings.TrimSuffix(strings.TrimLeft(lines[0], "/#* "), " */")
		if got != "SPDX-License-Identifier: "+want {
			t.Errorf("%s: begins with %q, want SPDX-License-Identifier: %s", path, lines[0], want)
		}
	})
}

// A repository that names its builder's machine or a registry's host works
// only there. The words are cut in two, or this file would hold them.
func TestForbiddenWords(t *testing.T) {
	words := []string{
		"/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/tmp/bash" + "_jobs",
		"proxy.go" + "lang.org", "sum.go" + "lang.org", "deb.deb" + "ian.org", "registry.npm" + "js",
	}
	sources(t, func(path string, text []byte) {
		for _, word := range words {
			if before, _, found := bytes.Cut(text, []byte(word)); found {
				t.Errorf("%s:%d: holds %q", path, bytes.Count(before, []byte("\n"))+1, word)
			}
		}
	})
}
