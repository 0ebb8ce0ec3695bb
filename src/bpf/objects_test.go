// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fastpath/src/testkit"
)

// The committed objects are what gen.go makes of the sources, and they hold no
// path of the machine that made them.
func TestObjects(t *testing.T) {
	for _, tool := range []string{"clang-14", "llvm-strip-14"} {
		_, err := exec.LookPath(tool)
		testkit.Need(t, err == nil, tool+" is not installed")
	}
	gen, err := os.ReadFile("gen.go")
	must(t, err)
	line := regexp.MustCompile(`(?m)^//go:generate go (run \S+/bpf2go) (.*)$`).FindSubmatch(gen)
	if line == nil {
		t.Fatal("gen.go has no line that runs bpf2go")
	}
	dir := t.TempDir()
	args := append(strings.Fields(string(line[1])), "-output-dir", dir)
	out, err := exec.Command("go", append(args, strings.Fields(string(line[2]))...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"fastpath_bpfel.o", "fastpath_bpfeb.o", "fastpath_bpfel.go", "fastpath_bpfeb.go"} {
		made, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		ours, err := os.ReadFile(name)
		must(t, err)
		if !bytes.Equal(made, ours) {
			t.Errorf("%s is not what the sources make: go generate ./src/bpf", name)
		}
		if here, err := os.Getwd(); err != nil || bytes.Contains(ours, []byte(here)) {
			t.Errorf("%s contains the path %s (%v)", name, here, err)
		}
	}
}
