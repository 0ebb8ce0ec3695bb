// SPDX-License-Identifier: Apache-2.0

package icount_test

import (
	"path/filepath"
	"testing"

	"fastpath/src/itest/icount"
	"fastpath/src/testkit/vm"
)

// most is what zero copy may cost of the slow path with NAT before something is
// broken. What it should cost is for the bench to judge.
const most = 0.75

// The early kernel is the one whose virtio-net has zero copy.
func TestInstructions(t *testing.T) {
	k := vm.NeedKernel(t, "early")
	prog := filepath.Join(t.TempDir(), "fastpath")
	if err := vm.GoBuild(prog, "./src/cmd/fastpath"); err != nil {
		t.Fatal(err)
	}
	counted, err := icount.Run(t.Context(), k, prog, 1, []string{icount.SlowPath, "afxdp zero copy", "xdp"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	costs := counted.Costs
	if len(costs) != 3 {
		t.Fatalf("counted %+v", counted)
	}
	for _, c := range costs {
		t.Logf("%-16s %5.0f instructions a packet, %.2f of the slow path; %.0f packets an interrupt",
			c.Path, c.Instructions, c.Instructions/costs[0].Instructions, float64(c.Packets)/float64(c.Interrupts))
	}
	if ratio := costs[1].Instructions / costs[0].Instructions; ratio > most {
		t.Errorf("zero copy costs %.2f of the slow path with NAT, want at most %.2f", ratio, most)
	}
}
