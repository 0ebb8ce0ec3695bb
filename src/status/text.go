// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"fastpath/src/state"
)

// WriteText prints the document for a person: one line that says it all,
// then a row for each port with its reasons, then what is wrong.
func (d Document) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, d.Summary())
	if d.Report.Enabled {
		d.writeCheck(&b)
		d.writeTraffic(&b)
	}
	for _, p := range d.Report.Ports {
		writePort(&b, p, d.Report.HookReason)
	}
	writeList(&b, "Configuration problems ("+d.Config.inForce()+")", d.Config.Problems)
	writeList(&b, "Problems", d.problems())
	writeList(&b, "Notices", d.Report.Notices)
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
	case d.Report.Hook == state.HookOff || d.Report.Hook == "":
		return "Not accelerating: " + or(d.Report.HookReason, "no hook")
	}
	t := d.Traffic
	flows := plural(t.Flows, "flow")
	hook := fmt.Sprintf("%s; hook %s%s", flows, d.Report.Hook, reason(d.Report.HookReason))
	switch {
	case !t.Counted:
		return "Accelerating: share of packets unknown (flows are not counted: option counters '0', or sysctl net.netfilter.nf_conntrack_acct is 0); " + hook
	case t.SinceStart.Percent == nil:
		return "Accelerating: ready, no forwarded packets yet; " + hook
	}
	line := fmt.Sprintf("Accelerating: %.1f %% of packets since the start", *t.SinceStart.Percent)
	if t.Interval.Percent != nil {
		line += fmt.Sprintf(", %.1f %% in the last %.0f s", *t.Interval.Percent, t.Interval.Seconds)
	}
	return line + "; " + hook
}

func (d Document) writeCheck(b *strings.Builder) {
	if d.Report.Hook != state.HookEarly || d.Early.Reason == "" {
		return
	}
	fmt.Fprintf(b, "  early_ingress by its behaviour: %s, %s\n", d.Early.Verdict, d.Early.Reason)
}

func (d Document) writeTraffic(b *strings.Builder) {
	s := d.Traffic.SinceStart
	if s.Percent == nil {
		return
	}
	fmt.Fprintf(b, "  slow path %s (counted), fast path %s (computed)\n", s.Slow, s.Accelerated)
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
	if p.HookReason == told {
		p.HookReason = ""
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

// WriteFlows prints the flows for a person.
func WriteFlows(w io.Writer, flows []state.Flow) error {
	if len(flows) == 0 {
		_, err := fmt.Fprintln(w, "no accelerated flows")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "PROTO\tFROM\tTO\tNAT\tPATH*\tENCAP*\tPACKETS\tBYTES")
	for _, f := range flows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s -> %s\t%s\t%s\t%s\n", f.Proto,
			endpoint(f.Orig.Src, f.Orig.SrcPort), endpoint(f.Orig.Dst, f.Orig.DstPort), nat(f),
			or(f.In, "?"), or(f.Out, "?"), or(f.Encap, "-"),
			counted(f, f.Orig.Packets, f.Reply.Packets), counted(f, f.Orig.Bytes, f.Reply.Bytes))
	}
	fmt.Fprintf(t, "%s. PACKETS and BYTES: sent + returned.\n", plural(len(flows), "flow"))
	fmt.Fprintln(t, "* computed from routes and links: the kernel doesn't tell.")
	return t.Flush()
}

// nat tells where the reply tuple differs from the original one turned round.
func nat(f state.Flow) string {
	var parts []string
	if f.Reply.Dst != f.Orig.Src || f.Reply.DstPort != f.Orig.SrcPort {
		parts = append(parts, "from "+endpoint(f.Reply.Dst, f.Reply.DstPort))
	}
	if f.Reply.Src != f.Orig.Dst || f.Reply.SrcPort != f.Orig.DstPort {
		parts = append(parts, "to "+endpoint(f.Reply.Src, f.Reply.SrcPort))
	}
	return or(strings.Join(parts, ", "), "-")
}

func counted(f state.Flow, sent, returned uint64) string {
	if !f.Counted {
		return "-"
	}
	return fmt.Sprintf("%d + %d", sent, returned)
}

func endpoint(addr string, port uint16) string {
	if strings.Contains(addr, ":") {
		return fmt.Sprintf("[%s]:%d", addr, port)
	}
	return fmt.Sprintf("%s:%d", addr, port)
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
