// SPDX-License-Identifier: Apache-2.0

//go:build !guest

// Package control tests the daemon on whole routers inside VMs: its guest tests
// run on each kernel.
package control

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fastpath/src/itest/topo"
	"fastpath/src/testkit/vm"
)

func TestControl(t *testing.T) {
	t.Parallel() // beside TestEngines, as a VM uses one CPU
	prog := daemon(t)
	vm.EachKernel(t, func(t *testing.T, k vm.Kernel) {
		vm.GoTest(t, config(t, k, prog), "./src/itest/control", ".", "-test.skip=^Test(Engine|Gap|Receive)")
	})
}

// The packet engines, in virtual time: gaps are what they are however busy this
// machine is.
func TestEngines(t *testing.T) {
	t.Parallel()
	prog := daemon(t)
	vm.EachKernel(t, func(t *testing.T, k vm.Kernel) {
		cfg := config(t, k, prog)
		cfg.VirtualTime = true
		vm.GoTest(t, cfg, "./src/itest/control", "^Test(Engine|Gap|Receive)")
	})
}

// A kernel whose flowtables are modules that nobody has loaded.
func TestWithoutFlowtable(t *testing.T) {
	prog := daemon(t)
	vm.EachKernel(t, func(t *testing.T, k vm.Kernel) {
		if k.Modules == "" {
			t.Log("flowtables are built into this kernel")
			return
		}
		cfg := config(t, k, prog)
		cfg.Env = append(cfg.Env, "FLOWTABLE=missing")
		cfg.Modules = slices.DeleteFunc(vm.DefaultModules(), func(m string) bool {
			return m == "nft_flow_offload" || strings.HasPrefix(m, "nf_flow_table")
		})
		vm.GoTest(t, cfg, "./src/itest/control", "^TestWithoutFlowtable$")
	})
}

// daemon builds fastpath.
func daemon(t *testing.T) (prog string) {
	prog = filepath.Join(t.TempDir(), "fastpath")
	if err := vm.GoBuild(prog, "./src/cmd/fastpath"); err != nil {
		t.Fatal(err)
	}
	return prog
}

// config is a VM of a router with the program on it.
func config(t *testing.T, k vm.Kernel, prog string) vm.Config {
	cfg, err := topo.VM(k, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Files["/usr/sbin/fastpath"] = prog
	cfg.Programs = append(cfg.Programs, "tc")
	cfg.Env = append(cfg.Env, "KERNEL="+k.Name)
	cfg.Timeout = 40 * time.Minute
	return cfg
}
