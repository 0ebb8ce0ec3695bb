// SPDX-License-Identifier: Apache-2.0

// Package rooms runs the tests of single packages inside VMs, on each kernel:
// what the kernel of the machine at hand can't show.
package rooms

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"fastpath/src/itest/topo"
	"fastpath/src/testkit"
	"fastpath/src/testkit/vm"
)

// The tests of src/kernel that need a flowtable, a device that vanishes, a trial.
func TestKernel(t *testing.T) {
	onEachKernel(t, func(t *testing.T, cfg vm.Config) {
		cfg.Env = append(cfg.Env, "FASTPATH_VM=1")
		cfg.Programs = append(cfg.Programs, "conntrack", "tcpdump")
		vm.GoTest(t, cfg, "./src/kernel", "^TestVM")
	})
}

// The XDP program loads on each kernel and does there what it does here; fewer
// frames, because the CPU is emulated. Its objects are rebuilt on the host.
func TestBPF(t *testing.T) {
	onEachKernel(t, func(t *testing.T, cfg vm.Config) {
		root, err := vm.RepoRoot()
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range []string{"fastpath_bpfel.o", "fastpath_bpfeb.o"} {
			cfg.Files["/job/"+object] = filepath.Join(root, "src/bpf", object)
		}
		vm.GoTest(t, cfg, "./src/bpf", ".", "-test.skip=^TestObjects$", "-cases=4000")
	})
}

func onEachKernel(t *testing.T, test func(*testing.T, vm.Config)) {
	_, err := exec.LookPath("qemu-system-x86_64")
	testkit.Need(t, err == nil, "no qemu-system-x86_64")
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
			cfg.Timeout = 20 * time.Minute
			test(t, cfg)
		})
	}
}
