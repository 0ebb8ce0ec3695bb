// SPDX-License-Identifier: Apache-2.0

//go:build !guest

package topo

import (
	"testing"

	"fastpath/src/testkit/vm"
)

// The guest tests on each kernel.
func TestTopology(t *testing.T) {
	vm.EachKernel(t, func(t *testing.T, k vm.Kernel) {
		cfg, err := VM(k, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		vm.GoTest(t, cfg, "./src/itest/topo", ".")
	})
}
