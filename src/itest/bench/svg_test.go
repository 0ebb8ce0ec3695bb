// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// shapes of a drawing, as an XML reader finds them.
type shapes struct {
	texts   []string
	circles []map[string]string
	lines   []map[string]string
}

func parseSVG(t *testing.T, doc []byte) (s shapes) {
	t.Helper()
	var inText bool
	for d := xml.NewDecoder(bytes.NewReader(doc)); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return s
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			attr := map[string]string{}
			for _, a := range e.Attr {
				attr[a.Name.Local] = a.Value
			}
			inText = e.Name.Local == "text"
			switch e.Name.Local {
			case "circle":
				s.circles = append(s.circles, attr)
			case "line":
				s.lines = append(s.lines, attr)
			}
		case xml.CharData:
			if inText {
				s.texts = append(s.texts, string(e))
			}
		case xml.EndElement:
			inText = false
		}
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDraw(t *testing.T) {
	e := func(low, median, high float64) Estimate { return Estimate{low, median, high, 30} }
	doc := draw(Results{CPU: "a < b & c", Kernel: "6.18", Rounds: 30,
		Cells: []Cell{
			{Variant: "kernel+nat", Encap: plain, Size: 64, Flows: 1000, Load: "saturated", CPU: e(1000, 2000, 4000)},
			{Variant: "xdp", Encap: dslite, Size: 64, Flows: 1000, Load: "saturated", CPU: e(200, 210, 220)},
			{Variant: "C l2fwd", Encap: plain, Size: 1500, Flows: 1000, Load: "saturated", CPU: e(900, 1000, 1100)},
		},
		Streams: []Stream{{Group: groupLocal, Name: byAFXDP, Rate: e(4e9, 5e9, 6e9), CPU: e(300, 310, 320)}},
	})
	s := parseSVG(t, doc)
	for _, want := range []string{
		"a < b & c, Linux 6.18, veth", "64 bytes, 1000 flows, saturated", "1500 bytes, 1000 flows, saturated",
		"router CPU, ns per packet", "xdp ds-lite", "2000", "TCP to the router, engine on the port", "Gbit/s", "CPU of NAPI, ns per 1000 bytes", "afxdp", "310",
	} {
		if !slices.ContainsFunc(s.texts, func(text string) bool { return strings.Contains(text, want) }) {
			t.Errorf("no text has %q: %q", want, s.texts)
		}
	}
	if len(s.circles) != 5 {
		t.Fatalf("%d dots for 5 values", len(s.circles))
	}
	for i, want := range []string{"kernel", "xdp", "c", "afxdp", "afxdp"} {
		if got := s.circles[i]["class"]; got != want {
			t.Errorf("dot %d is of class %q, want %q", i, got, want)
		}
	}
	// On the log axis 1000 and 4000 are as far from 2000.
	bar := s.lines[slices.IndexFunc(s.lines, func(l map[string]string) bool { return l["class"] == "bar kernel" })]
	x1, x2, dot := number(t, bar["x1"]), number(t, bar["x2"]), number(t, s.circles[0]["cx"])
	if x2-x1 < 10 || math.Abs((dot-x1)-(x2-dot)) > 0.2 {
		t.Errorf("the bar goes from %.1f to %.1f, the dot is at %.1f", x1, x2, dot)
	}
	if !bytes.Contains(doc, []byte("prefers-color-scheme: dark")) {
		t.Error("no colours for a dark page")
	}
}

// Nothing measured, or only some: no NaN, no infinity.
func TestDrawLittle(t *testing.T) {
	for name, r := range map[string]Results{
		"nothing": {},
		"one":     {Cells: []Cell{{Variant: "kernel", Encap: plain, CPU: Estimate{5, 5, 5, 1}}}},
		"zero":    {Streams: []Stream{{Group: groupFib, Name: "none"}}},
	} {
		doc := draw(r)
		parseSVG(t, doc)
		if bytes.Contains(doc, []byte("NaN")) || bytes.Contains(doc, []byte("Inf")) {
			t.Errorf("%s: %s", name, doc)
		}
	}
}

func TestScales(t *testing.T) {
	for _, tt := range []struct {
		low, high float64
		want      []float64
	}{
		{150, 4100, []float64{100, 200, 500, 1000, 2000, 5000}},
		{200, 2000, []float64{200, 500, 1000, 2000}},
		{5, 5, []float64{5, 10}},
		{21, 49, []float64{20, 50}},
	} {
		if got := logScale([]Estimate{{tt.low, tt.low, tt.high, 5}}).ticks; !slices.Equal(got, tt.want) {
			t.Errorf("logScale %v to %v: %v, want %v", tt.low, tt.high, got, tt.want)
		}
	}
	for _, tt := range []struct {
		high float64
		want []float64
	}{
		{9.5, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		{2.2, []float64{0, 0.5, 1, 1.5, 2, 2.5}},
	} {
		s := linearScale([]Estimate{{0, 0, tt.high, 5}})
		if !slices.Equal(s.ticks, tt.want) || s.at(s.to) != axisWidth || s.at(0) != 0 {
			t.Errorf("linearScale to %v: %v, want %v", tt.high, s.ticks, tt.want)
		}
	}
}
