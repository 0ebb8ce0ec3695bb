// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
)

// The kernel's clock agrees with what we take HZ for.
func TestHZ(t *testing.T) {
	hz, err := measureHZ()
	must(t, err)
	t.Logf("HZ is %d", hz)
	if !slices.Contains([]uint32{100, 128, 250, 300, 512, 1000, 1024}, hz) {
		t.Errorf("HZ is %d", hz)
	}
}

func TestPossibleCPUs(t *testing.T) {
	got, err := possibleCPUs()
	must(t, err)
	if want, err := ebpf.PossibleCPU(); err != nil || got != want {
		t.Errorf("%d CPUs, want %d, %v", got, want, err)
	}
	for list, want := range map[string]int{"0\n": 1, "0-3\n": 4, "0-127": 128, "0,2-3\n": 4, "0,2\n": 3} {
		if got, err := cpusOf(list); err != nil || got != want {
			t.Errorf("%q: %d CPUs, %v; want %d", list, got, err, want)
		}
	}
	for _, list := range []string{"", "\n", "0-", "x", "0-99999"} {
		if got, err := cpusOf(list); err == nil {
			t.Errorf("%q: %d CPUs", list, got)
		}
	}
}
