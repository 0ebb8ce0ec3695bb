// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"testing"
)

// The most lines that a file and a function may have. (A packet loop might have
// 80; none needs them.)
const (
	maxFile     = 400
	maxFunction = 50
)

func TestLengths(t *testing.T) {
	sources(t, func(file string, text []byte) {
		if ext := path.Ext(file); generated(text) || !slices.Contains([]string{".go", ".c", ".h"}, ext) {
			return
		}
		if n := bytes.Count(text, []byte("\n")); n > maxFile {
			t.Errorf("%s: %d lines, %d allowed", file, n, maxFile)
		}
		if path.Ext(file) != ".go" {
			return
		}
		for _, f := range functions(t, file, text) {
			if f.lines > maxFunction {
				t.Errorf("%s: %s has %d lines, %d allowed", file, f.name, f.lines, maxFunction)
			}
		}
	})
}

// function is one function or method and its length, from func to the closing brace.
type function struct {
	name  string
	lines int
}

func functions(t *testing.T, file string, text []byte) []function {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	var all []function
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			all = append(all, function{fn.Name.Name, set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1})
		}
	}
	return all
}

func TestFunctions(t *testing.T) {
	got := functions(t, "x.go", []byte("package x\n\n// doc\nfunc (t T) a() {\n\n}\nfunc a() {}\n"))
	if want := []function{{"a", 3}, {"a", 1}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
