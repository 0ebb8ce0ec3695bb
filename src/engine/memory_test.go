// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"fastpath/src/forward"
)

const mb = 1 << 20

func TestMaxFlows(t *testing.T) {
	for _, tt := range []struct {
		memory uint64
		want   uint32
	}{{16 * mb, leastFlows}, {64 * mb, 8192}, {128 * mb, 16384}, {256 * mb, 32768}, {1024 * mb, mostFlows}, {1 << 40, mostFlows}} {
		if got := maxFlows(tt.memory); got != tt.want {
			t.Errorf("%d MB: %d flows, want %d", tt.memory/mb, got, tt.want)
		}
	}
}

// The rings keep to the share, and twice as long ones wouldn't.
func TestRingSize(t *testing.T) {
	for _, tt := range []struct {
		memory                 uint64
		workers, inputs, ports int
		want                   int
	}{
		{65 * mb, 1, 2, 2, 256},
		{128 * mb, 1, 2, 2, 512},
		{256 * mb, 1, 2, 2, 1024},
		{256 * mb, 4, 8, 2, 256},
		{1024 * mb, 4, 8, 2, 1024},
		{128 * mb, 4, 64, 4, 0},
		{8 * mb, 1, 2, 2, 0},
	} {
		got := ringSize(tt.memory, tt.workers, tt.inputs, tt.ports)
		if got != tt.want {
			t.Errorf("%+v: ring of %d", tt, got)
		}
		need := func(ring int) (bytes uint64) {
			for w := range tt.workers {
				bytes += frameSize * uint64(forward.Frames((tt.inputs-w+tt.workers-1)/tt.workers, tt.ports, ring))
			}
			return bytes
		}
		if got > 0 && need(got) > tt.memory/umemShare {
			t.Errorf("%+v: a ring of %d needs %d bytes", tt, got, need(got))
		}
		if got < mostRing && need(max(2*got, leastRing)) <= tt.memory/umemShare {
			t.Errorf("%+v: a ring of %d would fit", tt, max(2*got, leastRing))
		}
	}
}

func TestReadMemTotal(t *testing.T) {
	n, err := readMemTotal()
	if err != nil || n < 16*mb || n > 1<<50 {
		t.Errorf("this machine has %d bytes, %v", n, err)
	}
}
