// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"fastpath/src/itest/icount"
)

// little is what is measured when much can't be: one scene, three variants, and
// six rounds.
func little() measurements {
	m := newMeasurements()
	for round := range 6 {
		x := float64(round)
		m.add(ordinary, kernelNAT, Sample{round, 1000 + 10*x, 1e6})
		m.add(ordinary, xdpNAT, Sample{round, 200 + 2*x, 5e6})
		m.add(ordinary, devmap, Sample{round, 160 + 1.6*x, 6e6})
		for i, st := range streams[3:5] {
			m.streams[st] = append(m.streams[st], StreamSample{(4e9 + 1e8*x) * (1 - 0.04*float64(i)), 300})
		}
	}
	return m
}

// Cells that are missing are absent, and so are the targets that need them.
func TestMissingCells(t *testing.T) {
	r := little().results()
	var got []string
	for _, c := range r.Cells {
		got = append(got, c.Variant)
		if c.Size != 64 || c.Flows != 1000 || c.Load != "saturated" || len(c.Samples) != 6 || c.Ratio == nil {
			t.Errorf("%+v", c)
		}
	}
	for _, v := range r.Targets {
		got = append(got, v.What+" "+v.Verdict)
	}
	for _, s := range r.Streams {
		got = append(got, s.Group+" "+s.Name)
	}
	want := []string{
		"kernel+nat", "xdp+nat", "C devmap",
		"xdp+nat / kernel+nat missed", "xdp+nat / C devmap met", "TCP to the router, xdp / no engine met",
		"engine on the port none", "engine on the port xdp",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if n := newMeasurements().results(); len(n.Cells)+len(n.Streams)+len(n.Targets) != 0 {
		t.Errorf("of nothing: %+v", n)
	}
}

func TestInstructionVerdict(t *testing.T) {
	slow := icount.Cost{Path: icount.SlowPath, Instructions: 4000}
	for _, tt := range []struct {
		costs []icount.Cost
		want  string
	}{
		{nil, ""},
		{[]icount.Cost{slow}, ""},
		{[]icount.Cost{slow, {Path: zeroCopy, Instructions: 2000}}, met},
		{[]icount.Cost{{Path: zeroCopy, Instructions: 2004}, slow}, missed},
	} {
		got := ""
		for _, v := range instructionVerdict(tt.costs) {
			got += v.Verdict
		}
		if got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.costs, got, tt.want)
		}
	}
}

// The file is read by scripts: its fields have these names. What is read is what
// was written.
func TestResultsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench", "results.json")
	r := little().results()
	r.CPU, r.Kernel, r.Rounds = "c", "k", 6
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	got, err := readResults(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, r) {
		t.Errorf("got  %+v\nwant %+v", got, r)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"cpu": "c"`, `"kernel": "k"`, `"rounds": 6`, `"cells"`, `"variant": "xdp+nat"`, `"encap": "none"`, `"size": 64`,
		`"flows": 1000`, `"load": "saturated"`, `"cpu_ns"`, `"pps"`, `"ratio_to_plain_kernel_nat"`, `"samples"`, `"tcp"`, `"bits_per_second"`,
		`"targets"`, `"verdict": "met"`, `"low"`, `"median"`, `"high"`, `"values"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the file lacks %s", want)
		}
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := little().results().table(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"205 (200 to 210)", "0.200 (0.200 to 0.200)", "<= 0.12", ">= 0.95", "missed", "4.25 (4.00 to 4.50)", "SCHED_FIFO"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
