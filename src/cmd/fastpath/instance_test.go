// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPIDRefused: a pid file that can't be written leaves nothing half-written.
func TestPIDRefused(t *testing.T) {
	dir := t.TempDir()
	one, err := acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(dir); !errors.Is(err, errRunning) {
		t.Errorf("a second one: %v, want %v", err, errRunning)
	}
	if err := os.Mkdir(filepath.Join(dir, "pid"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := one.writePID(); err == nil || !strings.HasPrefix(err.Error(), "pid file: ") {
		t.Errorf("got %v, want an error about the pid file", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "pid.new")); err == nil {
		t.Error("pid.new was left behind")
	}
	if err := one.release(); err != nil {
		t.Error(err)
	}
}
