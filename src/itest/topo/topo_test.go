// SPDX-License-Identifier: Apache-2.0

//go:build !guest

package topo

import (
	"errors"
	"os/exec"
	"testing"

	"fastpath/src/testkit"
	"fastpath/src/testkit/vm"
)

// The guest tests on each kernel.
func TestTopology(t *testing.T) {
	_, err := exec.LookPath("qemu-system-x86_64")
	testkit.Need(t, err == nil, "no qemu-system-x86_64")
	for _, name := range vm.Kernels() {
		t.Run(name, func(t *testing.T) {
			k, err := vm.Find(name)
			testkit.Need(t, !errors.Is(err, vm.ErrNoKernel), "no kernel "+name)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := VM(k, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			vm.GoTest(t, cfg, "./src/itest/topo", ".")
		})
	}
}
