// SPDX-License-Identifier: Apache-2.0

// Package rooms runs the tests of single packages inside VMs, on each kernel:
// what the kernel of the machine at hand can't show.
package rooms

import (
	"path/filepath"
	"testing"

	"fastpath/src/testkit/vm"
)

// programs are what these tests call.
func programs() []string {
	return []string{"busybox", "sh", "ip", "nft", "ethtool", "conntrack", "pppd"}
}

// The tests of src/kernel that need a flowtable: trial, round trip, a device
// that vanishes between look and apply, each call failed once.
func TestKernel(t *testing.T) {
	vm.EachKernel(t, func(t *testing.T, k vm.Kernel) {
		cfg := vm.Config{Kernel: k, Programs: programs(), Env: []string{"FASTPATH_VM=1"}}
		vm.GoTest(t, cfg, "./src/kernel", "^TestVM")
	})
}

// The XDP program loads on each kernel and does there what it does here; fewer
// frames, because the CPU is emulated. Its objects are rebuilt on the host.
func TestBPF(t *testing.T) {
	root, err := vm.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, object := range []string{"fastpath_bpfel.o", "fastpath_bpfeb.o"} {
		files["/job/"+object] = filepath.Join(root, "src/bpf", object)
	}
	vm.EachKernel(t, func(t *testing.T, k vm.Kernel) {
		cfg := vm.Config{Kernel: k, Programs: programs(), Files: files}
		vm.GoTest(t, cfg, "./src/bpf", ".", "-test.skip=^TestObjects$", "-cases=4000")
	})
}
