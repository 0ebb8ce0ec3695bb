// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"fastpath/src/itest/engine"
	"fastpath/src/testkit"
)

// TestMain lets the test binary be the forwarding process, as the program is.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := engine.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Every variant forwards what its sink counts, at a cost that is one; a variant
// whose packets are not as they should be is an error, not a figure.
func TestEveryVariant(t *testing.T) {
	testkit.NeedNetns(t)
	testkit.Need(t, runtime.NumCPU() > 1, "the benchmark needs two CPUs")
	for i, v := range variants {
		t.Run(v.label(), func(t *testing.T) {
			b, err := newBed(v, i)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := b.close(); err != nil {
					t.Error(err)
				}
			}()
			s, err := b.measure(200*time.Millisecond, load{"20kpps", 20_000})
			if err != nil {
				t.Fatal(err)
			}
			if s.cpu < 10 || s.pps < 100 || s.pps > 100_000 { // an interrupted call to the generator starts again
				t.Errorf("%.0f ns for each of %.0f packets/s, with 20,000 offered", s.cpu, s.pps)
			}
			b.sink = otherSink(t, b)
			if _, err := b.measure(50*time.Millisecond, load{"20kpps", 20_000}); err == nil {
				t.Error("packets with another address than the sink wants were counted")
			}
		})
	}
}

// otherSink exchanges the bed's sink for one that wants another source address.
func otherSink(t *testing.T, b *bed) *sink {
	t.Helper()
	s, err := newSink([4]byte{203, 0, 113, 9}, 26)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.sinkLink.Update(s.prog); err != nil {
		t.Fatal(err)
	}
	b.sink.prog.Close()
	b.sink.count.Close()
	return s
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want Spread
	}{
		{[]float64{7}, Spread{7, 7, 7}},
		{[]float64{3, 1}, Spread{1, 2, 3}},
		{[]float64{9, 1, 4}, Spread{1, 4, 9}},
		{[]float64{8, 2, 4, 6}, Spread{2, 5, 8}},
	} {
		if got := spread(c.in); got != c.want {
			t.Errorf("spread(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}

// The ratio is over the reference of the same round, not over its median.
func TestSummarize(t *testing.T) {
	r := summarize(Result{Variant: "x"}, []sample{{100, 5}, {300, 1}, {800, 3}}, []sample{{200, 9}, {300, 9}, {1000, 9}})
	want := Result{Variant: "x", CPU: Spread{100, 300, 800}, PPS: Spread{1, 3, 5}, Ratio: Spread{0.5, 0.8, 1}}
	if r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
}

// The file has these fields, no more and no less: scripts read it.
func TestResultsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench", "results.json")
	s := Spread{1, 2, 3}
	r := Results{CPU: "c", Kernel: "k", Results: []Result{{"v", "none", 1000, 64, "saturated", s, s, s}}}
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := json.Compact(&got, b); err != nil {
		t.Fatal(err)
	}
	const spread = `{"min":1,"median":2,"max":3}`
	want := `{"cpu":"c","kernel":"k","results":[{"variant":"v","encap":"none","flows":1000,"size":64,"load":"saturated","cpu_ns":` +
		spread + `,"pps":` + spread + `,"ratio":` + spread + `}]}`
	if got.String() != want {
		t.Errorf("got  %s\nwant %s", got.String(), want)
	}
	var table strings.Builder
	r.table(&table)
	for _, want := range []string{" 1000    64  saturated", "2 (1 to 3)", "2.00 (1.00 to 3.00)"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
}
