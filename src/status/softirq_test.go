// SPDX-License-Identifier: Apache-2.0

package status

import (
	"os"
	"runtime"
	"testing"
)

func TestSoftirq(t *testing.T) {
	const first = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 0 100 800 0 0 0 0 50 0\ncpu1 100 0 100 700 0 0 100 0 0 0\nintr 1 2 3\n"
	for _, c := range []struct {
		what string
		text []string
		want float64
	}{
		{"one sample is none", []string{first}, none},
		{"no time passed", []string{first, first}, none},
		{"the busiest counts", []string{first, "cpu0 100 0 100 870 0 0 30 0 50 0\ncpu1 100 0 100 790 0 0 110 0 0 0\n"}, 30},
		{"guests are in user already", []string{first, "cpu0 150 0 100 825 0 0 25 0 100 0\n"}, 25},
		{"a CPU that is new or began again", []string{first, "cpu0 1 0 1 1 0 0 1 0 0 0\ncpu7 1 0 1 1 0 0 1 0 0 0\n"}, none},
		{"softirq went back", []string{first, "cpu1 900 0 100 700 0 0 50 0 0 0\n"}, none},
		{"rubbish", []string{first, "cpu\ncpu0 a b\ncpu0 1 2 3\n\n"}, none},
		{"the last two", []string{first, first, "cpu0 100 0 100 800 0 0 100 0 0 0\n", "cpu0 100 0 100 850 0 0 150 0 0 0\n"}, 50},
	} {
		var m Meter
		for _, text := range c.text {
			m.AddStat([]byte(text))
		}
		got := m.Traffic().Softirq
		if (got == nil) != (c.want == none) || got != nil && *got != c.want {
			t.Errorf("%s: %v, want %v", c.what, text(got), c.want)
		}
	}
}

// The machine's own file has a line for each CPU.
func TestParseStat(t *testing.T) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	cpus := parseStat(stat)
	if len(cpus) < runtime.NumCPU() || cpus["cpu0"].all == 0 {
		t.Errorf("%d CPUs: %+v", runtime.NumCPU(), cpus)
	}
}
