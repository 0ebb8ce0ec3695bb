// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Results is bench/results.json.
type Results struct {
	CPU     string   `json:"cpu"`
	Kernel  string   `json:"kernel"`
	Results []Result `json:"results"`
}

// Result is one variant under one load. The ratio is over kernel+nat in the
// same round, under the same load.
type Result struct {
	Variant string `json:"variant"`
	Encap   string `json:"encap"`
	Flows   int    `json:"flows"`
	Size    int    `json:"size"` // bytes, without FCS, as the generator sends them
	Load    string `json:"load"`
	CPU     Spread `json:"cpu_ns"` // router CPU per packet seen at the sink
	PPS     Spread `json:"pps"`    // seen at the sink
	Ratio   Spread `json:"ratio"`
}

// Spread is over the rounds.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// sample is one measurement.
type sample struct{ cpu, pps float64 }

// spread of at least one value.
func spread(values []float64) Spread {
	s := slices.Sorted(slices.Values(values))
	mid := s[len(s)/2]
	if len(s)%2 == 0 {
		mid = (s[len(s)/2-1] + mid) / 2
	}
	return Spread{s[0], mid, s[len(s)-1]}
}

// summarize makes a Result of the rounds' samples and those of the reference.
func summarize(r Result, samples, reference []sample) Result {
	var cpu, pps, ratio []float64
	for i, s := range samples {
		cpu, pps = append(cpu, s.cpu), append(pps, s.pps)
		ratio = append(ratio, s.cpu/reference[i].cpu)
	}
	r.CPU, r.PPS, r.Ratio = spread(cpu), spread(pps), spread(ratio)
	return r
}

// write writes the file; it is replaced as a whole.
func (r Results) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// table prints the results for a person.
func (r Results) table(w io.Writer) {
	fmt.Fprintf(w, "\n%s, Linux %s\n\n", r.CPU, r.Kernel)
	fmt.Fprintf(w, "%-12s %-11s %5s %5s  %-10s %-22s %-24s %s\n", "variant", "encap", "flows", "bytes", "load", "router CPU, ns/packet", "against kernel+nat", "packets/s at the sink")
	for _, x := range r.Results {
		fmt.Fprintf(w, "%-12s %-11s %5d %5d  %-10s %-22s %-24s %.0f\n", x.Variant, x.Encap, x.Flows, x.Size, x.Load,
			fmt.Sprintf("%.0f (%.0f to %.0f)", x.CPU.Median, x.CPU.Min, x.CPU.Max),
			fmt.Sprintf("%.2f (%.2f to %.2f)", x.Ratio.Median, x.Ratio.Min, x.Ratio.Max), x.PPS.Median)
	}
	fmt.Fprintln(w, "\nmedian (minimum to maximum) of the rounds")
}

// machine names the CPU and the kernel.
func machine() (cpu, kernel string, err error) {
	cpu = runtime.GOARCH
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", "", err
	}
	for _, line := range strings.Split(string(b), "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			cpu = strings.TrimSpace(v)
			break
		}
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", "", err
	}
	return cpu, unix.ByteSliceToString(u.Release[:]), nil
}
