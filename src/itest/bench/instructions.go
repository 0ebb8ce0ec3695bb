// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"fastpath/src/itest/icount"
	"fastpath/src/testkit/vm"
)

const zeroCopy = "afxdp zero copy"

// instructionPaths are counted in a VM, where clocks tell nothing.
var instructionPaths = []string{icount.SlowPath, zeroCopy}

// zeroCopyLimit is for the instructions of zero copy over those of the slow path.
const zeroCopyLimit = 0.50

// countInstructions runs the router in a VM with the kernel whose virtio-net has
// zero copy. The same run gives the same numbers, so there is one.
func countInstructions(ctx context.Context, dir string) ([]icount.Cost, error) {
	k, err := vm.Find("early")
	if err != nil {
		return nil, err
	}
	fmt.Println("counting instructions in a VM, a few minutes")
	program := filepath.Join(dir, "fastpath")
	if err := vm.GoBuild(program, "./src/cmd/fastpath"); err != nil {
		return nil, err
	}
	counted, err := icount.Run(ctx, k, program, 1, instructionPaths, io.Discard)
	return counted.Costs, err
}

// instructionVerdict is none if one of the two wasn't counted.
func instructionVerdict(costs []icount.Cost) (all []Verdict) {
	counted := map[string]float64{}
	for _, c := range costs {
		counted[c.Path] = c.Instructions
	}
	of, over := counted[zeroCopy], counted[icount.SlowPath]
	if of == 0 || over == 0 {
		return nil
	}
	v := Verdict{What: zeroCopy + " / " + icount.SlowPath, Scene: "instructions, bursts of 64",
		Ratio: estimate([]float64{of / over}), Limit: zeroCopyLimit, Verdict: met}
	if of/over > zeroCopyLimit {
		v.Verdict = missed
	}
	return []Verdict{v}
}
