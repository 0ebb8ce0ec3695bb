// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// table prints the results for a person.
func (r Results) table(w io.Writer) error {
	fmt.Fprintf(w, "\n%s, Linux %s, %d rounds of what is judged, %d of the rest\n", r.CPU, r.Kernel, r.Rounds, others(r.Rounds))
	fmt.Fprint(w, "Median (the bounds of the median: each holds with 95 %). Ratios are of the same round's values.\n",
		"The engines' workers and the C l2fwd run under SCHED_FIFO.\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "variant\tencap\tbytes\tflows\tload\tCPU, ns/packet\tagainst plain kernel+nat\tpackets/s")
	for _, c := range r.Cells {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%.0f\n", c.Variant, c.Encap, c.Size, c.Flows, c.Load, c.CPU.format("%.0f", 1), c.Ratio.ratio(), c.PPS.Median)
	}
	fmt.Fprintln(t, "\nTCP to the router\t\tGbit/s\tagainst none\tCPU of NAPI, ns/1000 bytes\tagainst none")
	for _, s := range r.Streams {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Group, s.Name, s.Rate.format("%.2f", 1e9), s.Ratio.ratio(), s.CPU.format("%.0f", 1), s.CPURatio.ratio())
	}
	fmt.Fprintln(t, "\nin a VM\tinstructions/packet")
	for _, c := range r.Counted {
		fmt.Fprintf(t, "%s\t%.0f\n", c.Path, c.Instructions)
	}
	fmt.Fprintln(t, "\nratio\tof\tmedian (bounds)\ttarget\t")
	for _, v := range r.Targets {
		sign := "<="
		if v.AtLeast {
			sign = ">="
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s %.2f\t%s\n", v.What, v.Scene, v.Ratio.ratio(), sign, v.Limit, v.Verdict)
	}
	return t.Flush()
}

func (e Estimate) format(verb string, unit float64) string {
	return fmt.Sprintf(verb+" ("+verb+" to "+verb+")", e.Median/unit, e.Low/unit, e.High/unit)
}

// ratio is nothing for nil.
func (e *Estimate) ratio() string {
	if e == nil {
		return ""
	}
	return e.format("%.3f", 1)
}
