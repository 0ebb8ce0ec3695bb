// SPDX-License-Identifier: Apache-2.0

//go:build !guest

// Package control tests the daemon on whole routers inside VMs: its guest tests
// run on each kernel.
package control

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"fastpath/src/itest/topo"
	"fastpath/src/testkit"
	"fastpath/src/testkit/vm"
)

func TestControl(t *testing.T) {
	_, err := exec.LookPath("qemu-system-x86_64")
	testkit.Need(t, err == nil, "no qemu-system-x86_64")
	prog := filepath.Join(t.TempDir(), "fastpath")
	if err := vm.GoBuild(prog, "./src/cmd/fastpath"); err != nil {
		t.Fatal(err)
	}
	for _, name := range vm.Kernels() {
		t.Run(name, func(t *testing.T) {
			k, err := vm.Find(name)
			testkit.Need(t, !errors.Is(err, vm.ErrNoKernel), "no kernel "+name)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := topo.VM(k, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			cfg.Files["/usr/sbin/fastpath"] = prog
			cfg.Env = append(cfg.Env, "KERNEL="+name)
			cfg.Timeout = 20 * 60e9
			vm.GoTest(t, cfg, "./src/itest/control", ".")
		})
	}
}
