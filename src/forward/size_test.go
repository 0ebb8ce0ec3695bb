// SPDX-License-Identifier: Apache-2.0

package forward

import "testing"

func TestNumWorkers(t *testing.T) {
	for _, c := range []struct {
		cpus   int
		queues []int
		want   int
	}{
		{4, []int{4, 4}, 4}, {4, []int{8, 2}, 2}, {1, []int{4, 4}, 1}, {2, []int{1, 16}, 1}, {4, nil, 4}, {0, []int{0}, 1},
	} {
		if got := NumWorkers(c.cpus, c.queues...); got != c.want {
			t.Errorf("%d CPUs, queues %v: %d workers, want %d", c.cpus, c.queues, got, c.want)
		}
	}
}
