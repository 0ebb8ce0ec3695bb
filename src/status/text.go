// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"fastpath/src/state"
)

// WriteText prints the document for a person: one line that says it all,
// then a block for each port with its reasons, then what is wrong and what
// could be better.
func (d Document) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, d.Summary())
	if d.Report.Enabled {
		d.writeCheck(&b)
		d.writeTraffic(&b)
	}
	for _, p := range d.Report.Ports {
		writePort(&b, p, d.Report.HookReason)
		for _, t := range d.Traffic.Ports {
			if t.Name == p.Name {
				t.write(&b, d.Engines[p.Name].Kind)
			}
		}
	}
	if d.Report.Enabled {
		d.writePolicies(&b)
		d.Drops.write(&b)
	}
	writeList(&b, "Configuration problems ("+d.Config.inForce()+")", d.Config.Problems)
	writeList(&b, "Problems", d.problems())
	writeList(&b, "Notices", d.Report.Notices)
	writeList(&b, "Recommended", d.Recommendations)
	fmt.Fprintf(&b, "\nfastpath %s, pid %d, running since %s, kernel %s\n",
		d.Version, d.PID, d.Since.Format(time.RFC3339), d.Kernel)
	_, err := io.WriteString(w, b.String())
	return err
}

// Summary is the document in one line.
func (d Document) Summary() string {
	switch {
	case d.Look.Count == 0:
		return "Starting: the first look at the kernel isn't done"
	case !d.Report.Enabled:
		return "Not accelerating: " + or(d.Report.HookReason, "not enabled")
	case d.hookOff() && len(d.Engines) == 0:
		return "Not accelerating: " + or(d.Report.HookReason, "no hook")
	}
	t := d.Traffic
	means := d.means()
	switch {
	case !t.Counted:
		return "Accelerating: share of packets unknown (flows are not counted: option counters '0', or sysctl net.netfilter.nf_conntrack_acct is 0); " + means
	case t.SinceStart.Percent == nil:
		return "Accelerating: ready, no forwarded packets yet; " + means
	}
	line := fmt.Sprintf("Accelerating: %.1f %% of packets since the start", *t.SinceStart.Percent)
	if t.Interval.Percent != nil {
		line += fmt.Sprintf(", %.1f %% in the last %.0f s", *t.Interval.Percent, t.Interval.Seconds)
	}
	return line + "; " + means
}

func (d Document) hookOff() bool { return d.Report.Hook == state.HookOff || d.Report.Hook == "" }

// means tells how many flows are carried, and by what.
func (d Document) means() string {
	t := d.Traffic
	hook := fmt.Sprintf("hook %s%s", d.Report.Hook, reason(d.Report.HookReason))
	switch {
	case len(d.Engines) == 0:
		return plural(t.Flows, "flow") + "; " + hook
	case d.hookOff():
		return fmt.Sprintf("%s in engines; %s; no flowtable%s", plural(t.EngineFlows, "flow"), d.engines(), reason(d.Report.HookReason))
	}
	return fmt.Sprintf("%s in engines, %d in the flowtable; %s; %s", plural(t.EngineFlows, "flow"), t.Flows, d.engines(), hook)
}

// engines are those that run: xdp on eth0, eth1; afxdp on eth2.
func (d Document) engines() string {
	ports := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(d.Engines)) {
		kind := d.Engines[name].Kind
		ports[kind] = append(ports[kind], name)
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(ports)) {
		parts = append(parts, "engine "+kind+" on "+strings.Join(ports[kind], ", "))
	}
	return strings.Join(parts, "; ")
}

func (d Document) writeCheck(b *strings.Builder) {
	if d.Report.Hook != state.HookEarly || d.Early.Reason == "" {
		return
	}
	fmt.Fprintf(b, "  early_ingress by its behaviour: %s, %s\n", d.Early.Verdict, d.Early.Reason)
}

// writeTraffic prints the totals of each path.
func (d Document) writeTraffic(b *strings.Builder) {
	t, s := d.Traffic, d.Traffic.SinceStart
	engines := len(d.Engines) > 0 || s.Engines.Packets > 0
	row := func(path string, v Volume, how string) { fmt.Fprintf(b, "  %-9s %s (%s)\n", path, v, how) }
	if s.Percent != nil || s.Engines.Packets > 0 {
		if engines {
			row("engines", s.Engines, "counted")
		}
		if !d.hookOff() || s.Flowtable.Packets > 0 {
			row("flowtable", s.Flowtable, "computed")
		}
		row("slow path", s.Slow, "counted")
	}
	if t.EngineFull > 0 {
		fmt.Fprintf(b, "  %s found no room in an engine and stayed with the kernel\n", plural(t.EngineFull, "connection"))
	}
	if engines {
		b.WriteString("  only fastpath counts what engines forward: conntrack, tcpdump and the counters of bridge, VLAN and PPPoE devices miss it\n")
	}
}

// writePort leaves out a hook's reason that the first line has told already.
func writePort(b *strings.Builder, p state.PortReport, told string) {
	fmt.Fprintf(b, "\n%s", p.Name)
	if p.Networks != "" {
		fmt.Fprintf(b, " (%s)", p.Networks)
	}
	if p.Path != "" && p.Path != p.Name {
		fmt.Fprintf(b, ": %s", p.Path)
	}
	b.WriteByte('\n')
	row := func(what, value, why string) {
		if value != "" {
			fmt.Fprintf(b, "  %-8s %s%s\n", what, value, reason(why))
		}
	}
	if rest, ok := strings.CutPrefix(p.HookReason, told); ok {
		p.HookReason = strings.TrimPrefix(rest, "; ")
	}
	row("hook", string(p.Hook), p.HookReason)
	row("receive", p.Receive, p.ReceiveReason)
	row("engine", p.Engine, p.EngineReason)
}

// problems are those of the last look, and when it will be tried again.
func (d Document) problems() []string {
	list := append([]string(nil), d.Look.Problems...)
	if len(list) > 0 && d.Look.RetrySeconds > 0 {
		list = append(list, fmt.Sprintf("trying again every %.0f s", d.Look.RetrySeconds))
	}
	return list
}

func (c Config) inForce() string {
	switch c.InForce {
	case LastGood:
		return "the last good configuration stays in force"
	case Lenient:
		return "what could be read is in force"
	}
	return c.InForce
}

func writeList(b *strings.Builder, title string, list []string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, s := range list {
		fmt.Fprintf(b, "  %s\n", s)
	}
}

// String is the volume for a person.
func (v Volume) String() string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	n, i := float64(v.Bytes), 0
	for n >= 1000 && i < len(units)-1 {
		n, i = n/1000, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%s, %d B", plural(v.Packets, "packet"), v.Bytes)
	}
	return fmt.Sprintf("%s, %.1f %s", plural(v.Packets, "packet"), n, units[i])
}

func reason(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func plural[N int | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
