// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"fastpath/src/config"
	"fastpath/src/kernel"
	decide "fastpath/src/plan"
	"fastpath/src/state"
	"fastpath/src/status"
)

// report is the text as it grows. What can't be read is said in its place.
type report struct{ strings.Builder }

func (r *report) title(name string)            { fmt.Fprintf(r, "\n== %s\n", name) }
func (r *report) line(format string, a ...any) { fmt.Fprintf(r, format+"\n", a...) }
func (r *report) cant(what string, err error)  { r.line("can't read %s: %s", what, kernel.Explain(err)) }

func showReport(c *call) int {
	var r report
	r.line("fastpath %s, %s, %s", bareVersion(), runtime.Version(), runtime.GOARCH)
	r.line("secrets, public addresses and halves of MACs are left out; please look through it before you send it")
	r.system()
	for _, name := range reported {
		writeConfig(&r, c.dirs(), name)
	}
	doc := r.daemon(c)
	r.kernel(c, doc)
	for _, p := range programs {
		r.program(p...)
	}
	fmt.Fprint(c.stdout, redact(r.String(), secrets(c.dirs())))
	return exitOK
}

// systemFiles tell what router this is and what of its kernel matters.
var systemFiles = []string{
	"/proc/version", "/etc/openwrt_release", "/etc/os-release", "/tmp/sysinfo/model", "/tmp/sysinfo/board_name",
	"/proc/sys/net/netfilter/nf_conntrack_acct", "/proc/sys/net/netfilter/nf_conntrack_events",
	"/proc/sys/net/netfilter/nf_conntrack_count", "/proc/sys/net/netfilter/nf_conntrack_max",
	"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding", "/proc/loadavg",
}

func (r *report) system() {
	r.title("system")
	r.line("%d CPUs", runtime.NumCPU())
	for _, path := range systemFiles {
		text, err := os.ReadFile(path)
		switch {
		case err == nil:
			r.line("%s: %s", path, strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n\t"))
		case !errors.Is(err, os.ErrNotExist):
			r.cant(path, err)
		}
	}
}

// daemon prints what the daemon says; nil: there is none, or it can't be asked.
func (r *report) daemon(c *call) *status.Document {
	r.title("status")
	doc, err := status.AskDocument(c.runDir)
	if err != nil {
		r.line("can't ask the daemon: %v", err)
		return nil
	}
	doc.WriteText(r)
	r.line("looks %d, steps %d, failed %d", doc.Look.Count, doc.Look.Steps, doc.Look.FailedSteps)
	if len(doc.Plan.Steps) > 0 {
		r.line("the last plan with steps, %s:", doc.Plan.Time.Format(time.RFC3339))
	}
	for _, s := range doc.Plan.Steps {
		r.line("\t%s%s", s.Text, errorOf(s))
	}
	return &doc
}

func errorOf(s status.Step) string {
	if s.Error == "" {
		return ""
	}
	return ": " + s.Error
}

// kernel prints one look and what would be done about it.
func (r *report) kernel(c *call, doc *status.Document) {
	r.title("kernel")
	conf, err := config.LoadLenient(c.dirs())
	if err != nil {
		r.line("configuration problems:\n%v", err)
	}
	k, err := kernel.New(c.runDir, slog.New(slog.NewTextHandler(r, nil)))
	if err != nil {
		r.cant("the kernel", err)
		return
	}
	defer k.Close()
	o, err := k.Observe(state.Query{HookNumber: conf.Main.HookNumber})
	if err != nil {
		r.cant("all of the kernel", err)
	}
	r.observed(o)
	r.title("plan")
	if err != nil {
		r.line("none, since not all of the kernel could be read")
		return
	}
	if doc != nil {
		inform(&o, *doc)
	}
	want, decided := decide.Desired(conf, o)
	r.decided(decided)
	for _, s := range decide.Diff(want, o) {
		r.line("step: %s", s)
	}
}

// programs print what only they can read.
var programs = [][]string{
	{"nft", "--terse", "list", "table", "inet", state.TableName},
	{"nft", "--terse", "list", "table", "netdev", state.TableName},
	{"nft", "list", "flowtables"},
	{"nft", "--terse", "list", "chain", "inet", "fw4", "forward"},
	{"tc", "qdisc", "show"},
	{"logread", "-e", "fastpath"},
	{"journalctl", "--no-pager", "-q", "-u", "fastpath", "-n", "50"},
}

// programTime bounds each of them, mostLines what is printed of it: the last.
const (
	programTime = 5 * time.Second
	mostLines   = 300
)

// program prints what one says. One that isn't installed is passed over.
func (r *report) program(argv ...string) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return
	}
	r.title(strings.Join(argv, " "))
	ctx, cancel := context.WithTimeout(context.Background(), programTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	lines := strings.SplitAfter(string(out), "\n")
	if cut := len(lines) - mostLines; cut > 0 {
		r.line("(%d lines before)", cut)
		lines = lines[cut:]
	}
	r.WriteString(strings.Join(lines, ""))
	if err != nil {
		r.line("it ended with: %v", err)
	}
}
