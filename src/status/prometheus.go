// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"fastpath/src/state"
)

// metricsEnd is the last line: a comment to a scraper, and to our client the
// sign that nothing is missing.
const metricsEnd = "# EOF\n"

// metrics writes Prometheus' text format 0.0.4: a family's lines stand
// together, after its HELP and TYPE.
type metrics struct{ b strings.Builder }

// label is a name and its value.
type label struct{ name, value string }

func (m *metrics) family(name, typ, help string) {
	fmt.Fprintf(&m.b, "# HELP %s %s\n# TYPE %s %s\n", name, escapeHelp.Replace(help), name, typ)
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func (m *metrics) line(name string, value float64, labels ...label) {
	m.b.WriteString(name)
	for i, l := range labels {
		m.b.WriteString([]string{"{", ","}[min(i, 1)])
		m.b.WriteString(l.name + `="` + escapeLabel.Replace(inUTF8(l.value)) + `"`)
	}
	if len(labels) > 0 {
		m.b.WriteByte('}')
	}
	m.b.WriteString(" " + strconv.FormatFloat(value, 'f', -1, 64) + "\n")
}

// inUTF8 writes a value that isn't UTF-8, which no scraper takes, as Go would: a
// device's name is any bytes.
func inUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strconv.Quote(s)
}

// single is a family of one line.
func (m *metrics) single(name, typ, help string, value float64, labels ...label) {
	m.family(name, typ, help)
	m.line(name, value, labels...)
}

// WritePrometheus prints the document's figures for a scraper. Counters count
// since the daemon's start.
func (d Document) WritePrometheus(w io.Writer) error {
	var m metrics
	m.single("fastpath_info", "gauge", "The version, the kernel's release, and the flowtable's hook.", 1,
		label{"version", d.Version}, label{"kernel", d.Kernel}, label{"hook", or(string(d.Report.Hook), string(state.HookOff))})
	m.single("fastpath_start_time_seconds", "gauge", "When the daemon started, in seconds since 1970.", float64(d.Since.UnixMilli())/1000)
	m.single("fastpath_enabled", "gauge", "Whether the configuration enables fastpath.", truth(d.Report.Enabled))
	m.paths(d.Traffic)
	m.ports(d.Traffic.Ports)
	m.engines(d)
	m.policies(d.Policies)
	m.drops(d.Drops)
	m.single("fastpath_looks_total", "counter", "Looks at the kernel.", float64(d.Look.Count))
	m.single("fastpath_look_problems", "gauge", "Problems of the last look.", float64(len(d.Look.Problems)))
	m.family("fastpath_steps_total", "counter", "Changes to the kernel, by what came of them.")
	m.line("fastpath_steps_total", float64(d.Look.Steps-d.Look.FailedSteps), label{"result", "done"})
	m.line("fastpath_steps_total", float64(d.Look.FailedSteps), label{"result", "failed"})
	if d.Traffic.Softirq != nil {
		m.single("fastpath_softirq_ratio", "gauge", "Share of the last interval that the busiest CPU spent in softirqs.", *d.Traffic.Softirq/100)
	}
	m.b.WriteString(metricsEnd)
	_, err := io.WriteString(w, m.b.String())
	return err
}

// paths are the totals of established TCP and UDP.
func (m *metrics) paths(t Traffic) {
	rows := []struct {
		path string
		Volume
		flows int
	}{
		{"engine", t.SinceStart.Engines, t.EngineFlows},
		{"flowtable", t.SinceStart.Flowtable, t.Flows},
		{"slow", t.SinceStart.Slow, 0},
	}
	m.family("fastpath_packets_total", "counter", "Forwarded packets of established TCP and UDP by path; flowtable is computed, the others are counted.")
	for _, r := range rows {
		m.line("fastpath_packets_total", float64(r.Packets), label{"path", r.path})
	}
	m.family("fastpath_bytes_total", "counter", "Their bytes from the IP header on.")
	for _, r := range rows {
		m.line("fastpath_bytes_total", float64(r.Bytes), label{"path", r.path})
	}
	m.family("fastpath_flows", "gauge", "Connections that are accelerated now, by path.")
	for _, r := range rows[:2] {
		m.line("fastpath_flows", float64(r.flows), label{"path", r.path})
	}
	m.single("fastpath_engine_full_total", "counter", "Connections that found no room in an engine.", float64(t.EngineFull))
}

func (m *metrics) ports(ports []PortTraffic) {
	each := func(name, help string, value func(PortTraffic) uint64) {
		if len(ports) == 0 {
			return
		}
		m.family(name, "counter", help)
		for _, p := range ports {
			m.line(name, float64(value(p)), label{"port", p.Name})
		}
	}
	each("fastpath_port_receive_packets_total", "Packets received, as the driver counts.", func(p PortTraffic) uint64 { return p.Rx.Packets })
	each("fastpath_port_receive_bytes_total", "Bytes received with Ethernet headers, as the driver counts.", func(p PortTraffic) uint64 { return p.Rx.Bytes })
	each("fastpath_port_transmit_packets_total", "Packets sent, as the driver counts.", func(p PortTraffic) uint64 { return p.Tx.Packets })
	each("fastpath_port_transmit_bytes_total", "Bytes sent with Ethernet headers, as the driver counts.", func(p PortTraffic) uint64 { return p.Tx.Bytes })
	each("fastpath_port_engine_packets_total", "Packets that came in by the port and that its engine forwarded.", func(p PortTraffic) uint64 { return p.Engine.Packets })
	each("fastpath_port_engine_bytes_total", "Their bytes from the IP header on.", func(p PortTraffic) uint64 { return p.Engine.Bytes })
	each("fastpath_port_kernel_packets_total", "Packets that came in by the port and that the kernel got: all, or what the engine passed.", func(p PortTraffic) uint64 { return p.Kernel })
	m.reasons("fastpath_port_engine_passed_packets_total", "Packets that the port's engine left to the kernel, by reason.", ports,
		func(p PortTraffic) map[string]uint64 { return p.Passed })
	m.reasons("fastpath_port_engine_dropped_packets_total", "Packets that the port's engine lost, by reason.", ports,
		func(p PortTraffic) map[string]uint64 { return p.Dropped })
}

func (m *metrics) reasons(name, help string, ports []PortTraffic, of func(PortTraffic) map[string]uint64) {
	if !slices.ContainsFunc(ports, func(p PortTraffic) bool { return len(of(p)) > 0 }) {
		return
	}
	m.family(name, "counter", help)
	for _, p := range ports {
		for _, reason := range slices.Sorted(maps.Keys(of(p))) {
			m.line(name, float64(of(p)[reason]), label{"port", p.Name}, label{"reason", reason})
		}
	}
}

// engines are which ports have one, and which hook.
func (m *metrics) engines(d Document) {
	if len(d.Report.Ports) == 0 {
		return
	}
	m.family("fastpath_port_info", "gauge", "Each port's hook, receive mode and engine.")
	for _, p := range d.Report.Ports {
		m.line("fastpath_port_info", 1, label{"port", p.Name}, label{"hook", string(p.Hook)},
			label{"receive", p.Receive}, label{"engine", p.Engine})
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
