// SPDX-License-Identifier: Apache-2.0

//go:build !guest

// Package control tests the daemon on whole routers inside VMs: its guest tests
// run on each kernel.
package control

import (
	"path/filepath"
	"testing"
	"time"

	"fastpath/src/itest/topo"
	"fastpath/src/testkit/vm"
)

func TestControl(t *testing.T) {
	prog := filepath.Join(t.TempDir(), "fastpath")
	if err := vm.GoBuild(prog, "./src/cmd/fastpath"); err != nil {
		t.Fatal(err)
	}
	vm.EachKernel(t, func(t *testing.T, k vm.Kernel) {
		cfg, err := topo.VM(k, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		cfg.Files["/usr/sbin/fastpath"] = prog
		cfg.Env = append(cfg.Env, "KERNEL="+k.Name)
		cfg.Timeout = 20 * time.Minute
		vm.GoTest(t, cfg, "./src/itest/control", ".")
	})
}
