// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"fastpath/src/itest/icount"

	"golang.org/x/sys/unix"
)

// Results is bench/results.json. A cell that could not be measured isn't there.
type Results struct {
	CPU     string        `json:"cpu"`
	Kernel  string        `json:"kernel"`
	Rounds  int           `json:"rounds"`
	Cells   []Cell        `json:"cells"`
	Streams []Stream      `json:"tcp"`
	Counted []icount.Cost `json:"instructions"`
	Targets []Verdict     `json:"targets"`
}

// Cell is one variant in one scene.
type Cell struct {
	Variant string    `json:"variant"`
	Encap   string    `json:"encap"`
	Size    int       `json:"size"` // bytes of a frame, without FCS, as the generator sends them
	Flows   int       `json:"flows"`
	Load    string    `json:"load"`
	CPU     Estimate  `json:"cpu_ns"`                              // router CPU per packet seen at the sink
	PPS     Estimate  `json:"pps"`                                 // seen at the sink
	Ratio   *Estimate `json:"ratio_to_plain_kernel_nat,omitempty"` // of CPU, in the same round
	Samples []Sample  `json:"samples"`
}

// Stream is a TCP connection that ends on the router.
type Stream struct {
	Group    string         `json:"group"`
	Name     string         `json:"name"`
	Rate     Estimate       `json:"bits_per_second"`
	CPU      Estimate       `json:"cpu_ns_per_kb"`
	Ratio    *Estimate      `json:"rate_ratio,omitempty"` // to the group's first one
	CPURatio *Estimate      `json:"cpu_ratio,omitempty"`
	Samples  []StreamSample `json:"samples"` // by round
}

// Verdict is a target and what came out.
type Verdict struct {
	What    string   `json:"what"`
	Scene   string   `json:"scene"`
	Ratio   Estimate `json:"ratio"`
	Limit   float64  `json:"limit"`
	AtLeast bool     `json:"at_least"` // else at most
	Verdict string   `json:"verdict"`
}

// measurements are the samples by scene and variant, and the those by stream; of
// what was measured.
type measurements struct {
	cells   map[scene]map[variant][]Sample
	streams map[stream][]StreamSample
	counted *[]icount.Cost // in a VM
}

func newMeasurements() measurements {
	return measurements{cells: map[scene]map[variant][]Sample{}, streams: map[stream][]StreamSample{}, counted: &[]icount.Cost{}}
}

func (m measurements) add(s scene, v variant, x Sample) {
	if m.cells[s] == nil {
		m.cells[s] = map[variant][]Sample{}
	}
	m.cells[s][v] = append(m.cells[s][v], x)
}

// ratio is that of two cells, nil if one is missing.
func (m measurements) ratio(s scene, of, over variant) *Estimate {
	r := ratios(byRound(m.cells[s][of]), byRound(m.cells[s][over]))
	if len(r) == 0 {
		return nil
	}
	e := estimate(r)
	return &e
}

func byRound(samples []Sample) map[int]float64 {
	m := make(map[int]float64, len(samples))
	for _, s := range samples {
		m[s.Round] = s.CPU
	}
	return m
}

// results are what can be said of the measurements.
func (m measurements) results() Results {
	var r Results
	for _, s := range scenes {
		for _, v := range variants {
			if samples := m.cells[s][v]; len(samples) > 0 {
				r.Cells = append(r.Cells, m.cell(s, v, samples))
			}
		}
	}
	for _, st := range streams {
		if samples := m.streams[st]; len(samples) > 0 {
			r.Streams = append(r.Streams, Stream{st.group, st.name, estimate(pick(samples, rateOf)), estimate(pick(samples, cpuOf)),
				m.streamRatio(st, rateOf), m.streamRatio(st, cpuOf), samples})
		}
	}
	r.Counted = *m.counted
	r.Targets = append(m.verdicts(), instructionVerdict(r.Counted)...)
	return r
}

func (m measurements) cell(s scene, v variant, samples []Sample) Cell {
	var cpu, pps []float64
	for _, x := range samples {
		cpu, pps = append(cpu, x.CPU), append(pps, x.PPS)
	}
	return Cell{Variant: v.name(), Encap: v.encap, Size: s.size, Flows: s.flows, Load: s.load(),
		CPU: estimate(cpu), PPS: estimate(pps), Ratio: m.ratio(s, v, kernelNAT), Samples: samples}
}

func rateOf(s StreamSample) float64 { return s.Rate }
func cpuOf(s StreamSample) float64  { return s.CPU }

func pick(samples []StreamSample, value func(StreamSample) float64) (values []float64) {
	for _, s := range samples {
		values = append(values, value(s))
	}
	return values
}

// streamRatio is that of a stream's values to its group's first one's, nil for
// that one and if one is missing.
func (m measurements) streamRatio(st stream, value func(StreamSample) float64) *Estimate {
	first := streams[slices.IndexFunc(streams, func(s stream) bool { return s.group == st.group })]
	of, over := pick(m.streams[st], value), pick(m.streams[first], value)
	if first == st || len(of) == 0 || len(of) != len(over) {
		return nil
	}
	for i := range of {
		of[i] /= over[i]
	}
	e := estimate(of)
	return &e
}

// verdicts are of the targets whose cells are there.
func (m measurements) verdicts() (all []Verdict) {
	for _, t := range targets {
		if r := m.ratio(t.scene, t.of, t.over); r != nil {
			all = append(all, Verdict{t.what(), t.scene.String(), *r, t.limit, false, atMost(*r, t.limit)})
		}
	}
	for _, st := range streams {
		if st.limit == 0 {
			continue
		}
		if r := m.streamRatio(st, rateOf); r != nil {
			all = append(all, Verdict{"TCP to the router, " + st.name + " / no engine", "rate", *r, st.limit, true, atLeast(*r, st.limit)})
		}
	}
	return all
}

// write writes the file; it is replaced as a whole.
func (r Results) write(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return replace(path, append(b, '\n'))
}

func replace(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", content, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// readResults reads what write wrote.
func readResults(path string) (r Results, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
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
