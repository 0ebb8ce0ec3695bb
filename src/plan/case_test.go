// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fastpath/src/config"
	"fastpath/src/state"
)

// A golden file is text in sections, each begun by a line "-- NAME --":
// fastpath, network, firewall, turboacc, sqm, qosify, qosmate (UCI), events (see event), then the answers
// steps, ruleset and report. More of the same may follow: a later stage goes on
// from the router and the files that the one before left.
type section struct{ name, text string }

func readCase(t testing.TB, path string) []section {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sections := []section{{}}
	for line := range strings.Lines(string(text)) {
		name, mark := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- ")
		if name, ok := strings.CutSuffix(name, " --"); mark && ok {
			sections = append(sections, section{name: name})
			continue
		}
		sections[len(sections)-1].text += line
	}
	return sections
}

func writeCase(t testing.TB, path string, sections []section) {
	t.Helper()
	var b strings.Builder
	b.WriteString(sections[0].text)
	for _, s := range sections[1:] {
		fmt.Fprintf(&b, "-- %s --\n%s", s.name, s.text)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// stage is a router and its configuration on the way through a case.
type stage struct {
	dir string // of the UCI files
	r   *router
}

func newStage(t testing.TB) *stage {
	t.Helper()
	r := &router{keepsNames: true, original: map[string]state.Offloads{}}
	r.o = state.Observed{Release: "7.3", Saved: map[string]state.Offloads{}}
	r.o.Hooks.Ingress.OK, r.o.Marks.OK, r.o.FIB.OK, r.o.FIBLoose.OK = true, true, true, true
	r.o.Engines, r.o.Refused = map[string]state.Engine{}, map[string]state.Refusal{}
	r.o.Sysctls = map[string]state.Sysctl{state.SysctlAcct: {Value: "0"}}
	r.o.SavedSysctls = map[string]string{}
	r.o.Multicast, r.o.Mix = map[string]string{}, map[string]state.Mix{}
	r.o.Hooks.Early.Reason = "the kernel has no early_ingress hook (EOPNOTSUPP, errno 95)"
	return &stage{dir: t.TempDir(), r: r}
}

// input takes a section of UCI or events; false for an answer.
func (s *stage) input(t testing.TB, in section) bool {
	t.Helper()
	switch in.name {
	case "fastpath", "network", "firewall", "turboacc", "sqm", "qosify", "qosmate":
		if err := os.WriteFile(filepath.Join(s.dir, in.name), []byte(in.text), 0o644); err != nil {
			t.Fatal(err)
		}
	case "events":
		for line := range strings.Lines(in.text) {
			if err := s.r.event(line); err != nil {
				t.Fatalf("event %q: %v", strings.TrimSpace(line), err)
			}
		}
	case "steps", "ruleset", "report":
		return false
	default:
		t.Fatalf("unknown section %q", in.name)
	}
	return true
}

func (s *stage) config(t testing.TB) config.Config {
	t.Helper()
	c, err := config.Load(config.Dirs{Config: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	new(config.DropLists).Fill(&c)
	return c
}

// answers are the sections that a stage ends with.
func (s *stage) answers(want state.State, report state.Report, steps []state.Step) map[string]string {
	return map[string]string{
		"steps":   printSteps(steps),
		"ruleset": printTable(want.Table) + printDrop(want.Drop),
		"report":  strings.ReplaceAll(printReport(report), s.dir, "/etc/config"),
	}
}

func printSteps(steps []state.Step) string {
	var b strings.Builder
	for _, step := range steps {
		fmt.Fprintln(&b, step)
	}
	return b.String()
}

// printTable is the table as nft would list it.
func printTable(t *state.Table) string {
	if t == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s {\n%s", state.TableName, printFlowtable(t.Flowtable))
	for _, kind := range slices.Sorted(maps.Keys(t.Engines)) {
		fmt.Fprintf(&b, "\tset %s {\n\t\ttype ifname\n\t\telements = { %s }\n\t}\n\n", kind, quoted(t.Engines[kind]))
	}
	for _, zone := range slices.Sorted(maps.Keys(t.Zones)) {
		elements := ""
		if len(t.Zones[zone]) > 0 {
			elements = "\t\telements = { " + quoted(t.Zones[zone]) + " }\n"
		}
		fmt.Fprintf(&b, "\tset %s%s {\n\t\ttype ifname\n%s\t}\n\n", state.ZonePrefix, zone, elements)
	}
	for _, s := range t.Sets {
		fmt.Fprintf(&b, "\tset %s {\n\t\ttype %s_addr\n\t\tflags interval, timeout\n\t}\n\n", s.Name, s.Family)
	}
	fmt.Fprintf(&b, "\tchain %s {\n\t\ttype filter hook forward priority filter + %d; policy accept;\n",
		state.ChainName, state.ChainPriority)
	for _, r := range t.Rules {
		fmt.Fprintf(&b, "\t\t%s", r)
		switch {
		case r.Policy != "":
			fmt.Fprintf(&b, " comment %q", r.Policy)
		case r.Verdict.Hands() && t.Generation != "":
			fmt.Fprintf(&b, " comment %q", t.Generation)
		}
		b.WriteString("\n")
		if r.Verdict == state.Accelerate && r.All() {
			fmt.Fprintf(&b, "\t}\n\n\tchain %s {\n", state.AccelerateChain)
		}
	}
	b.WriteString("\t}\n" + printValidation(t.Validation) + "}\n")
	return b.String()
}

func printFlowtable(f state.Flowtable) string {
	if len(f.Devices) == 0 {
		return ""
	}
	hook := map[uint32]string{state.NumberIngress: "ingress"}[f.Number]
	if hook == "" {
		hook = fmt.Sprintf("%d", f.Number) // nft has no word for early_ingress
	}
	counter := ""
	if f.Counter {
		counter = "\t\tcounter\n"
	}
	return fmt.Sprintf("\tflowtable %s {\n\t\thook %s priority filter\n\t\tdevices = { %s }\n%s\t}\n\n",
		state.FlowtableName, hook, quoted(f.Devices), counter)
}

func quoted(names []string) string { return `"` + strings.Join(names, `", "`) + `"` }

func printReport(r state.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "hook %s: %s\n", r.Hook, r.HookReason)
	for _, p := range r.Ports {
		fmt.Fprintf(&b, "port %s [%s] %s\n", p.Name, p.Networks, p.Path)
		fmt.Fprintf(&b, "\thook %s: %s\n", p.Hook, p.HookReason)
		fmt.Fprintf(&b, "\treceive %s: %s\n", p.Receive, p.ReceiveReason)
		fmt.Fprintf(&b, "\tengine %s: %s\n", p.Engine, p.EngineReason)
	}
	for _, n := range r.Notices {
		fmt.Fprintf(&b, "notice: %s\n", n)
	}
	return b.String()
}
