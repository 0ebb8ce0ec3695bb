// SPDX-License-Identifier: Apache-2.0

// Package rooms runs the tests of single packages inside VMs, on each kernel:
// what the kernel of the machine at hand can't show.
package rooms

import (
	"testing"

	"fastpath/src/testkit/vm"
)

// programs are what these tests call.
func programs() []string {
	return []string{"busybox", "sh", "ip", "tc", "nft", "ethtool", "conntrack", "pppd"}
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
// frames, because the CPU is emulated. It is compiled again on the host only.
func TestBPF(t *testing.T) {
	vm.EachKernel(t, func(t *testing.T, k vm.Kernel) {
		cfg := vm.Config{Kernel: k, Programs: programs()}
		vm.GoTest(t, cfg, "./src/bpf", ".", "-test.skip=^TestObjects$", "-cases=4000")
	})
}
