// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"fastpath/src/itest/icount"
)

// Results is bench/results-vm.json.
type Results struct {
	icount.Counted
	Ratios []Ratio `json:"ratios"`
}

// Ratio is how many packets one way forwards with the instructions that another
// needs for one.
type Ratio struct {
	Of    string  `json:"of"`
	Over  string  `json:"over"`
	Flows int     `json:"flows"`
	Ratio float64 `json:"ratio"`
	Claim float64 `json:"claim,omitempty"` // the RFC's, of packets per second; 0: none
}

// claims are those of the RFC's cover letter (netfilter-devel, 17 March 2026,
// "flowtable bulking"), by flows: packets of 128 bytes, ~2 to ~4 and ~10.6 to
// ~15.7 million a second, on an EPYC 9135 with ConnectX-5. It calls what it compares
// with "baseline" and says no more.
var claims = map[int]float64{1: 4 / 2., 10: 15.7 / 10.6}

func newResults(c icount.Counted) Results {
	r := Results{Counted: c}
	for _, of := range []string{early, shortLists} {
		for _, over := range []string{icount.SlowPath, ingress, fraglist} {
			for _, n := range flows {
				a, b := cost(c, of, n), cost(c, over, n)
				if a == nil || b == nil {
					continue
				}
				ratio := Ratio{Of: of, Over: over, Flows: n, Ratio: b.Instructions / a.Instructions}
				if of == early && over != fraglist {
					ratio.Claim = claims[n]
				}
				r.Ratios = append(r.Ratios, ratio)
			}
		}
	}
	return r
}

// cost is that of a cell, or nil.
func cost(c icount.Counted, path string, flows int) *icount.Cost {
	i := slices.IndexFunc(c.Costs, func(x icount.Cost) bool { return x.Path == path && x.Flows == flows })
	if i < 0 {
		return nil
	}
	return &c.Costs[i]
}

func (r Results) write(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// print prints the table for a person.
func (r Results) print(w io.Writer) {
	line := func(cells ...any) { fmt.Fprintf(w, "%-52s%8s%14s%11s%14s\n", cells...) }
	fmt.Fprintf(w, "\nInstructions per packet, kernel %s: UDP in frames of 128 bytes, with NAT, bursts of 64\n\n", r.Kernel)
	line("", "1 flow", "of slow path", "10 flows", "of slow path")
	for _, path := range names {
		cells := []any{path}
		for _, n := range flows {
			cells = append(cells, r.cell(path, n)...)
		}
		line(cells...)
	}
	if len(r.Ratios) > 0 {
		fmt.Fprintln(w)
		line("packets for the instructions of one", "1 flow", "RFC's claim", "10 flows", "RFC's claim")
	}
	for i := 0; i < len(r.Ratios); i += len(flows) {
		cells := []any{r.Ratios[i].Of + " / " + r.Ratios[i].Over}
		for _, x := range r.Ratios[i : i+len(flows)] {
			claim := ""
			if x.Claim != 0 {
				claim = fmt.Sprintf("%.2f", x.Claim)
			}
			cells = append(cells, fmt.Sprintf("%.2f", x.Ratio), claim)
		}
		line(cells...)
	}
	for _, a := range r.Absent {
		fmt.Fprintf(w, "\nabsent: %s, flows: %d: %s\n", a.Path, a.Flows, a.Why)
	}
	fmt.Fprint(w, notes)
}

// cell is a path's instructions and what part of the slow path's they are.
func (r Results) cell(path string, flows int) []any {
	c, slow := cost(r.Counted, path, flows), cost(r.Counted, icount.SlowPath, flows)
	if c == nil || slow == nil {
		return []any{"absent", ""}
	}
	return []any{fmt.Sprintf("%.0f", c.Instructions), fmt.Sprintf("%.2f", c.Instructions/slow.Instructions)}
}

const notes = `
Counted is what kernel and fastpath execute for a packet, with virtio-net's driver; neither cache misses nor a bus. Compare
within one kernel: their configurations differ.
fastpath run has set each path up, the slow path excepted, and it was checked that the packets took it. GRO verifies UDP
checksums in software here: these frames come from a socket, without a verdict. Lists of 64 packets for each path, by
net.core.gro_normal_batch; 8 is the kernel's own choice.
The RFC's claims (cover letter of "flowtable bulking", netfilter-devel, March 2026) are of packets per second, 128 bytes, on
an EPYC 9135 with ConnectX-5 100G: ~2 to ~4 million with 1 flow, ~10.6 to ~15.7 million with 10. What it compares with it
calls "baseline", so both candidates stand here.
`
