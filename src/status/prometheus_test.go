// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	helpLine   = regexp.MustCompile(`^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$`)
	typeLine   = regexp.MustCompile(`^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge)$`)
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\[\\"n])*)"(,|$)`)
)

// family is what a scraper understands of one.
type family struct {
	typ    string
	values map[string]float64 // by the labels as they are written
}

// scrape reads text format 0.0.4 strictly: HELP and TYPE once and first, a
// family's lines together, no line twice, labels well escaped.
func scrape(text string) (map[string]family, error) {
	if !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line has no end")
	}
	families := map[string]family{}
	help, current := "", ""
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		bad := func(why string) error { return fmt.Errorf("line %d: %s: %q", n+1, why, line) }
		if m := helpLine.FindStringSubmatch(line); m != nil {
			if _, again := families[m[1]]; again {
				return nil, bad("a family comes twice")
			}
			help = m[1]
			continue
		}
		if m := typeLine.FindStringSubmatch(line); m != nil {
			if m[1] != help {
				return nil, bad("TYPE without its HELP before")
			}
			current, help = m[1], ""
			families[current] = family{m[2], map[string]float64{}}
			continue
		}
		if line == strings.TrimSpace(metricsEnd) {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			return nil, bad("no sample")
		}
		if m[1] != current || help != "" {
			return nil, bad("a sample outside its family")
		}
		if err := labels(m[2]); err != nil {
			return nil, bad(err.Error())
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, bad("no number")
		}
		if err := families[current].add(current, m[2], v); err != nil {
			return nil, bad(err.Error())
		}
	}
	return families, nil
}

func (f family) add(name, labels string, v float64) error {
	if _, twice := f.values[labels]; twice {
		return errors.New("the same sample twice")
	}
	if counter := f.typ == "counter"; counter != strings.HasSuffix(name, "_total") || counter && v < 0 {
		return errors.New("a counter is called _total and is never negative")
	}
	f.values[labels] = v
	return nil
}

func labels(s string) error {
	seen := map[string]bool{}
	for s != "" {
		m := labelPair.FindStringSubmatch(s)
		if m == nil || seen[m[1]] {
			return fmt.Errorf("labels %q", s)
		}
		seen[m[1]] = true
		s = s[len(m[0]):]
	}
	return nil
}

func prometheus(t *testing.T, d Document) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.WritePrometheus(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPrometheus(t *testing.T) {
	d := engineRouter()
	d.Look.Steps, d.Look.FailedSteps = 12, 2
	text := prometheus(t, d)
	golden(t, "engines.prom", []byte(text))
	families, err := scrape(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, labels string
		want         float64
	}{
		{"fastpath_info", `version="1.2.3",kernel="6.12.95",hook="ingress"`, 1},
		{"fastpath_start_time_seconds", "", float64(began.Unix())},
		{"fastpath_packets_total", `path="engine"`, 1_200_000},
		{"fastpath_bytes_total", `path="engine"`, 1_100_000_000},
		{"fastpath_packets_total", `path="flowtable"`, 1729},
		{"fastpath_packets_total", `path="slow"`, 1271},
		{"fastpath_flows", `path="engine"`, 1000},
		{"fastpath_flows", `path="flowtable"`, 3},
		{"fastpath_engine_full_total", "", 7},
		{"fastpath_port_engine_packets_total", `port="eth0"`, 600_000},
		{"fastpath_port_kernel_packets_total", `port="lan2"`, 10},
		{"fastpath_port_engine_passed_packets_total", `port="eth0",reason="no-flow"`, 1500},
		{"fastpath_port_engine_dropped_packets_total", `port="eth0",reason="shed"`, 9},
		{"fastpath_port_info", `port="lan2",hook="off",receive="keep",engine="flowtable"`, 1},
		{"fastpath_looks_total", "", 61},
		{"fastpath_steps_total", `result="done"`, 10},
		{"fastpath_steps_total", `result="failed"`, 2},
		{"fastpath_softirq_ratio", "", 0.625},
	} {
		if got, ok := families[c.name].values[c.labels]; !ok || got != c.want {
			t.Errorf("%s{%s} is %v, %v; want %v", c.name, c.labels, got, ok, c.want)
		}
	}
}

// Whatever the state: what is written can be read, and nothing is made up.
func TestPrometheusStates(t *testing.T) {
	hostile := engineRouter()
	hostile.Report.Ports[0].Name = "a\\b\"c\nd"
	hostile.Traffic.Ports[0].Passed["new\n\"reason\\"] = 1 << 63
	for name, d := range map[string]Document{"starting": {Since: began}, "plain": router(), "hostile": hostile} {
		families, err := scrape(prometheus(t, d))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, has := families["fastpath_softirq_ratio"]; has != (d.Traffic.Softirq != nil) {
			t.Errorf("%s: a softirq share %v", name, has)
		}
	}
	if text := prometheus(t, hostile); !strings.Contains(text, `port="a\\b\"c\nd"`) || !strings.Contains(text, `reason="new\n\"reason\\"} 9223372036854776000`) {
		t.Errorf("labels are not escaped as the format wants:\n%s", text)
	}
}

// The reader refuses what a scraper would.
func TestScrape(t *testing.T) {
	const head = "# HELP a_total x\n# TYPE a_total counter\n"
	for name, text := range map[string]string{
		"no end":          head + "a_total 1",
		"no HELP":         "# TYPE a_total counter\na_total 1\n",
		"no TYPE":         "a_total 1\n",
		"another's":       head + "b_total 1\n",
		"twice":           head + "a_total 1\na_total 2\n",
		"a family twice":  head + "a_total 1\n" + head,
		"torn apart":      head + "# HELP b x\n# TYPE b gauge\nb 1\na_total 1\n",
		"a bad escape":    head + `a_total{x="\t"} 1` + "\n",
		"an open label":   head + `a_total{x="} 1` + "\n",
		"a label twice":   head + `a_total{x="",x=""} 1` + "\n",
		"no number":       head + "a_total one\n",
		"negative":        head + "a_total -1\n",
		"a wrong name":    "# HELP a x\n# TYPE a counter\na 1\n",
		"an unknown TYPE": "# HELP a x\n# TYPE a number\na 1\n",
		"a raw line feed": head + "a_total{x=\"\n\"} 1\n",
		"empty":           "",
	} {
		if _, err := scrape(text); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if f, err := scrape(head + `a_total{x="1"} 1` + "\n" + `a_total{x="2"} 2` + "\n" + metricsEnd); err != nil || len(f["a_total"].values) != 2 {
		t.Errorf("%v, %v", f, err)
	}
}
