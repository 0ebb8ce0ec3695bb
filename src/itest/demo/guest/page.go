// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"fastpath/src/itest/topo"
	gen "fastpath/src/itest/topo/traffic"
	"fastpath/src/status"
)

// page is what one scenario shows, on one kernel.
type page struct {
	want   wanted // the kernel's hook; a scenario may want another
	net    *topo.Net
	daemon *daemon
	checks []check
	ports  uint16 // of transfers so far: each has its own
}

// check is a line of the verdict.
type check struct {
	ok   bool
	text string
}

// tell shows a scenario and closes with its verdict.
func tell(scenario func(*page) error, want wanted) (err error) {
	p := &page{want: want}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := scenario(p); err != nil {
		return err
	}
	return p.verdict()
}

// topology builds the variant, with no more configured than that fastpath is on.
func (p *page) topology(v topo.Variant, title, drawing string) (err error) {
	heading("Topology: %s", title)
	fmt.Print(drawing, "\n")
	if p.net, err = topo.Build(v, topo.Virtio); err != nil {
		return err
	}
	return errors.Join(v.WriteConfig("/etc/config", topo.Engine{}), startCounter(p.net.Router))
}

// configure appends sections to a file of /etc/config and shows them.
func (p *page) configure(file, sections string) error {
	f, err := os.OpenFile(filepath.Join("/etc/config", file), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + sections)
	fmt.Printf("   /etc/config/%s has:\n%s", file, indent(sections))
	return errors.Join(err, f.Close())
}

// run shows the plan and starts the daemon.
func (p *page) run() (err error) {
	heading("fastpath plan, before")
	if code := show(p.net.Router, "fastpath", "plan"); code != planSteps {
		return fmt.Errorf("fastpath plan: exit status %d, want %d (there are steps)", code, planSteps)
	}
	heading("fastpath run")
	p.daemon, err = startDaemon(p.net.Router, p.want)
	return err
}

// stop ends the daemon, for a scenario that starts it anew.
func (p *page) stop() error {
	if p.daemon == nil {
		return nil
	}
	d := p.daemon
	p.daemon = nil
	return d.stop()
}

// reload makes the daemon read its configuration again.
func (p *page) reload() error { return p.daemon.cmd.Process.Signal(syscall.SIGHUP) }

// router runs a shell script in the router and shows it.
func (p *page) router(script string) error {
	fmt.Print(indent(strings.TrimSpace(script)))
	out, err := p.net.Router.Sh(script)
	if out != "" {
		fmt.Print(indent(out))
	}
	return err
}

// check notes a line of the verdict.
func (p *page) check(ok bool, format string, args ...any) {
	p.checks = append(p.checks, check{ok, fmt.Sprintf(format, args...)})
}

// verdict prints the checks and fails if one has.
func (p *page) verdict() error {
	heading("Verdict")
	failed := 0
	for _, c := range p.checks {
		word := "ok    "
		if !c.ok {
			word, failed = "FAILED", failed+1
		}
		fmt.Print("   ", word, " ", strings.TrimLeft(strings.ReplaceAll(indent(c.text), "\n   |", "\n         "), " |"))
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d", failed, len(p.checks))
	case len(p.checks) == 0:
		return errors.New("nothing was checked")
	}
	return nil
}

func (p *page) close() error {
	err := p.stop()
	if p.net != nil {
		err = errors.Join(err, p.net.Close())
	}
	return err
}

// transfer is one from host1 or to it, without Bytes.
func (p *page) transfer(addr string, udp, up bool) gen.Transfer {
	p.ports++
	return gen.Transfer{Client: p.net.Host1, Server: p.net.Provider, Addr: netip.MustParseAddr(addr), Port: 5000 + p.ports, UDP: udp, Up: up}
}

// carry does a transfer and says what part of it took the slow path.
func (p *page) carry(t gen.Transfer) (r row, err error) {
	r = row{transfer: t}
	return r, r.run(context.Background(), p.net.Router)
}

// accelerated is carry with a line of the verdict.
func (p *page) accelerated(t gen.Transfer) (r row, err error) {
	if r, err = p.carry(t); err != nil {
		return r, err
	}
	err = r.verdict()
	if err == nil {
		p.check(true, "%s: %.2f %% of %d MB took the slow path (want less than %.0f %%)", t, 100*r.slowShare(), t.Bytes/1_000_000, 100*maxSlow)
	} else {
		p.check(false, "%v", err)
	}
	return r, nil
}

// until asks for the status until it is as wanted, for as long as it may take a busy machine.
func (p *page) until(what string, ok func(status.Document) bool) (doc status.Document, err error) {
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if doc, err = ask(p.net.Router); err == nil && ok(doc) {
			return doc, nil
		}
	}
	show(p.net.Router, "fastpath", "status")
	return doc, errors.Join(fmt.Errorf("not within two minutes: %s", what), err)
}

// receives is a port's receive mode and the reason for it.
func receives(doc status.Document, port string) (mode, reason string) {
	for _, r := range doc.Report.Ports {
		if r.Name == port {
			return r.Receive, r.ReceiveReason
		}
	}
	return "", ""
}

// statusAfter shows the status when its counters have caught up.
func (p *page) statusAfter() {
	heading("fastpath status, after")
	time.Sleep(5 * time.Second)
	show(p.net.Router, "fastpath", "status")
}

// news shows what the daemon has logged since it was last looked.
func (p *page) news() {
	text, err := os.ReadFile(logFile)
	if err != nil {
		fmt.Println("   ", err)
		return
	}
	fmt.Print(indent(string(text[min(p.daemon.shown, len(text)):])))
	p.daemon.shown = len(text)
}
