// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
)

// The drawing, in pixels: panels in two columns, each with a row for a variant or
// a stream. A row has a name, and a dot with the bounds of the median on an axis.
const (
	columnWidth = 560
	nameWidth   = 170 // left of the axis
	valueWidth  = 60  // right of it
	axisWidth   = columnWidth - nameWidth - valueWidth
	rowHeight   = 17
	panelHead   = 30
	panelFoot   = 44
	top         = 74 // of the first panel
)

// style is readable on white and on black. Who forwards is told by the colour
// and, for those who can't see it, by the name beside the dot.
const style = `
	:root { color-scheme: light dark }
	.page { fill: #fff }
	text { font: 12px sans-serif; fill: #222 }
	.title { font-size: 16px; font-weight: bold }
	.head { font-weight: bold }
	.small { font-size: 11px; fill: #555 }
	.grid { stroke: #ddd }
	.bar { stroke-width: 2 }
	.kernel { stroke: #666; fill: #666 }
	.xdp { stroke: #0072b2; fill: #0072b2 }
	.afxdp { stroke: #c05a00; fill: #c05a00 }
	.c { stroke: #008060; fill: #008060 }
	@media (prefers-color-scheme: dark) {
		.page { fill: #111 }
		text { fill: #eee }
		.small { fill: #aaa }
		.grid { stroke: #333 }
		.kernel { stroke: #bbb; fill: #bbb }
		.xdp { stroke: #56b4e9; fill: #56b4e9 }
		.afxdp { stroke: #ff9d4d; fill: #ff9d4d }
		.c { stroke: #33c9a0; fill: #33c9a0 }
	}
`

// panel is one diagram.
type panel struct {
	title, axis string
	scale       scale
	rows        []row
}

type row struct {
	name, class string
	value       Estimate
}

func (p panel) height() int { return panelHead + rowHeight*len(p.rows) + panelFoot }

// draw is the results as an SVG document.
func draw(r Results) []byte {
	panels := append(cellPanels(r.Cells), streamPanels(r.Streams)...)
	d := &drawing{}
	height := top
	for i := 0; i < len(panels); i += 2 {
		left := panels[i]
		d.panel(left, 0, height)
		tall := left.height()
		if i+1 < len(panels) {
			d.panel(panels[i+1], columnWidth, height)
			tall = max(tall, panels[i+1].height())
		}
		height += tall
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", 2*columnWidth, height)
	fmt.Fprintf(&out, "<title>What a forwarded packet costs</title>\n<style>%s</style>\n<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n", style)
	head := &drawing{}
	head.text(16, 26, "title", "start", "What a forwarded packet costs the router, and TCP that ends on it")
	head.text(16, 46, "small", "start", fmt.Sprintf("%s, Linux %s, veth. Dots are medians of up to %d rounds, bars the 95 %% bounds of the median, both from below and from above.", r.CPU, r.Kernel, r.Rounds))
	head.text(16, 62, "small", "start", "Sizes are of frames without FCS. The engines' workers and the C l2fwd (AF_XDP) run under SCHED_FIFO.")
	out.Write(head.Bytes())
	out.Write(d.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// cellPanels are one a scene, in the order of the cells.
func cellPanels(cells []Cell) (panels []panel) {
	all := make([]Estimate, len(cells))
	for i, c := range cells {
		all[i] = c.CPU
	}
	s := logScale(all)
	for _, c := range cells {
		title := fmt.Sprintf("%d bytes, %d flows, %s", c.Size, c.Flows, c.Load)
		if n := len(panels); n == 0 || panels[n-1].title != title {
			panels = append(panels, panel{title: title, axis: "router CPU, ns per packet", scale: s})
		}
		name := c.Variant
		if c.Encap != plain {
			name += " " + c.Encap
		}
		p := &panels[len(panels)-1]
		p.rows = append(p.rows, row{name, class(c.Variant), c.CPU})
	}
	return panels
}

// streamPanels are two a group: rate and CPU time.
func streamPanels(streams []Stream) (panels []panel) {
	var rates, cpus []Estimate
	for _, s := range streams {
		rates, cpus = append(rates, s.Rate.times(1e-9)), append(cpus, s.CPU)
	}
	for i, s := range streams {
		title := "TCP to the router, " + s.Group
		if n := len(panels); n == 0 || panels[n-2].title != title {
			panels = append(panels, panel{title: title, axis: "Gbit/s", scale: linearScale(rates)},
				panel{title: title, axis: "CPU of NAPI, ns per 1000 bytes", scale: linearScale(cpus)})
		}
		for j, value := range []Estimate{rates[i], cpus[i]} {
			p := &panels[len(panels)-2+j]
			p.rows = append(p.rows, row{s.Name, class(s.Name), value})
		}
	}
	return panels
}

func (e Estimate) times(f float64) Estimate {
	return Estimate{Low: e.Low * f, Median: e.Median * f, High: e.High * f, Values: e.Values}
}

func class(name string) string {
	for _, c := range []struct{ prefix, class string }{{byAFXDP, "afxdp"}, {byXDP, "xdp"}, {"C ", "c"}} {
		if len(name) >= len(c.prefix) && name[:len(c.prefix)] == c.prefix {
			return c.class
		}
	}
	return "kernel"
}

// drawing collects elements.
type drawing struct{ bytes.Buffer }

func (d *drawing) text(x, y float64, class, anchor, s string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">`, x, y, class, anchor)
	_ = xml.EscapeText(d, []byte(s)) // a Buffer doesn't fail
	d.WriteString("</text>\n")
}

func (d *drawing) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(d, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`+"\n", x1, y1, x2, y2, class)
}

func (d *drawing) panel(p panel, x, y int) {
	left, bottom := float64(x+nameWidth), float64(y+panelHead+rowHeight*len(p.rows))
	d.text(float64(x+16), float64(y+18), "head", "start", p.title)
	for _, tick := range p.scale.ticks {
		at := left + p.scale.at(tick)
		d.line(at, float64(y+panelHead), at, bottom+4, "grid")
		d.text(at, bottom+17, "small", "middle", fmt.Sprintf("%g", tick))
	}
	d.text(left+axisWidth/2, bottom+32, "small", "middle", p.axis)
	for i, r := range p.rows {
		middle := float64(y+panelHead) + rowHeight*(float64(i)+0.5)
		low, high := left+p.scale.at(r.value.Low), left+p.scale.at(r.value.High)
		d.text(left-8, middle+4, "", "end", r.name)
		d.line(low, middle, high, middle, "bar "+r.class)
		d.line(low, middle-4, low, middle+4, "bar "+r.class)
		d.line(high, middle-4, high, middle+4, "bar "+r.class)
		fmt.Fprintf(d, `<circle cx="%.1f" cy="%.1f" r="4" class="%s"/>`+"\n", left+p.scale.at(r.value.Median), middle, r.class)
		d.text(left+axisWidth+valueWidth-8, middle+4, "", "end", fmt.Sprintf("%.4g", r.value.Median))
	}
}

// scale is an axis: where a value is, in pixels from its left end.
type scale struct {
	from, to float64
	log      bool
	ticks    []float64
}

func (s scale) at(v float64) float64 {
	if s.log {
		return axisWidth * math.Log(v/s.from) / math.Log(s.to/s.from)
	}
	return axisWidth * (v - s.from) / (s.to - s.from)
}

// logScale has ticks at 1, 2 and 5 of each power of ten, and ends at ticks.
func logScale(values []Estimate) scale {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		low, high = min(low, v.Low), max(high, v.High)
	}
	if low <= 0 || low > high {
		low, high = 1, 10 // of nothing
	}
	s := scale{log: true}
	for power := math.Pow(10, math.Floor(math.Log10(low))); len(s.ticks) < 2 || s.ticks[len(s.ticks)-1] < high; power *= 10 {
		for _, digit := range []float64{1, 2, 5} {
			if n := len(s.ticks); n >= 2 && s.ticks[n-1] >= high {
				break
			}
			if n := len(s.ticks); n == 1 && digit*power <= low {
				s.ticks = s.ticks[:0] // a later one is the begin
			}
			s.ticks = append(s.ticks, digit*power)
		}
	}
	s.from, s.to = s.ticks[0], s.ticks[len(s.ticks)-1]
	return s
}

// linearScale begins at 0.
func linearScale(values []Estimate) scale {
	high := 0.0
	for _, v := range values {
		high = max(high, v.High)
	}
	if high == 0 {
		high = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(high)))
	for high/step < 4 {
		step /= 2
	}
	s := scale{}
	for v := 0.0; v < high+step; v += step {
		s.ticks = append(s.ticks, v)
		s.to = v
	}
	return s
}
