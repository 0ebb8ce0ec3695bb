// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"fastpath/src/state"
	"fastpath/src/status"
	"fastpath/src/testkit"
)

// planSteps is the exit status of fastpath plan when there is something to do.
const planSteps = 2

const logFile = "/tmp/fastpath.log"

// show runs a program in the router and prints what it says. It returns the
// exit status; a program that can't be run at all has -1.
func show(router *testkit.Netns, name string, args ...string) int {
	cmd := router.Command(name, args...)
	out, err := cmd.CombinedOutput()
	fmt.Printf("   $ %s %s\n%s", name, strings.Join(args, " "), indent(string(out)))
	if err != nil && cmd.ProcessState == nil {
		fmt.Println("   ", err)
		return -1
	}
	return cmd.ProcessState.ExitCode()
}

// ports are the router's.
var ports = []string{"lan1", "lan2", "wan"}

// daemon is fastpath run, in the router.
type daemon struct {
	cmd    *exec.Cmd
	exited chan error
	shown  int // bytes of the log
}

// startDaemon returns when the daemon accelerates as it is wanted to.
func startDaemon(router *testkit.Netns, want wanted) (*daemon, error) {
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d := &daemon{cmd: router.Command("fastpath", "run"), exited: make(chan error, 1)}
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("fastpath run: %w", err)
	}
	go func() { d.exited <- d.cmd.Wait() }()
	err = d.waitReady(router, want)
	said, readErr := os.ReadFile(logFile)
	fmt.Printf("   $ fastpath run\n%s", indent(string(said)))
	d.shown = len(said)
	if err != nil {
		return nil, errors.Join(err, readErr, d.stop())
	}
	return d, nil
}

// waitReady asks for the status until it is what is wanted.
func (d *daemon) waitReady(router *testkit.Netns, want wanted) error {
	var last error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		select {
		case err := <-d.exited:
			d.exited <- err
			return fmt.Errorf("fastpath run ended: %v", err)
		default:
		}
		doc, err := ask(router)
		if err == nil {
			err = want.check(doc.Report)
		}
		if last = err; last == nil {
			return nil
		}
	}
	return fmt.Errorf("fastpath run doesn't accelerate as wanted: %w", last)
}

// wanted is what the daemon has to choose.
type wanted struct {
	hook   string // of the flowtable; "": any
	engine string // of each port; "": the flowtable
}

// check says what r has instead, with its reason.
func (w wanted) check(r state.Report) error {
	if w.engine == "" {
		if r.Hook != state.HookOff && (w.hook == "" || string(r.Hook) == w.hook) {
			return nil
		}
		return fmt.Errorf("hook %s (%s), want %s", r.Hook, r.HookReason, cmp.Or(w.hook, "any"))
	}
	for _, name := range ports {
		i := slices.IndexFunc(r.Ports, func(p state.PortReport) bool { return p.Name == name })
		if i < 0 {
			return fmt.Errorf("no port %s", name)
		}
		if p := r.Ports[i]; p.Engine != w.engine {
			return fmt.Errorf("port %s has engine %s (%s), want %s", name, p.Engine, p.EngineReason, w.engine)
		}
	}
	return nil
}

// untapped says whether accelerated packets pass tcpdump by at the ingress
// ports; else it sees all of them.
func (w wanted) untapped(r state.Report) bool { return w.engine != "" || r.Hook == state.HookEarly }

// ask is fastpath status --json.
func ask(router *testkit.Netns) (doc status.Document, err error) {
	out, err := router.Command("fastpath", "status", "--json").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return doc, fmt.Errorf("fastpath status: %w: %s", err, exit.Stderr)
	}
	if err == nil {
		err = json.Unmarshal(out, &doc)
	}
	return doc, err
}

// stop ends the daemon; it has to end well.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop fastpath run: %w", err)
	}
	if err := <-d.exited; err != nil {
		return fmt.Errorf("fastpath run: %w", err)
	}
	return nil
}
