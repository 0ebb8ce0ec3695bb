// SPDX-License-Identifier: Apache-2.0

// Package faults breaks a router while its flows run, and shows what they
// notice of it: the daemon's own binary, as a black box, between network
// namespaces on this machine's kernel. Everything is done twice, with and
// without fastpath, because most faults hurt in any case.
package faults

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// patience is for a busy machine; nothing is measured by it.
const patience = time.Minute

var work string // a directory of this run

func TestMain(m *testing.M) {
	flag.Parse()
	// The labs wait for most of their time: more of them than CPUs may do so at once.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "fastpath-faults")
	if err != nil {
		panic(err)
	}
	work = dir
	code := m.Run()
	os.RemoveAll(work)
	os.Exit(code)
}

// program builds the daemon as it is released, once.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(work, "fastpath")
	cmd := exec.Command("go", "build", "-o", path, "fastpath/src/cmd/fastpath")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the daemon: %w\n%s", err, out)
	}
	return path, nil
})

// eventually polls until f holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
