// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"fastpath/src/state"
	"fastpath/src/status"
	"fastpath/src/testkit"
)

// planSteps is the exit status of fastpath plan when there is something to do.
const planSteps = 2

const early = state.HookEarly

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

// daemon is fastpath run, in the router.
type daemon struct {
	cmd    *exec.Cmd
	exited chan error
	hook   state.Hook
	reason string
}

// startDaemon returns when the daemon accelerates at the hook want ("": at any).
func startDaemon(router *testkit.Netns, want string) (*daemon, error) {
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
	err = d.waitReady(router)
	said, readErr := os.ReadFile(logFile)
	fmt.Printf("   $ fastpath run\n%s", indent(string(said)))
	if err == nil && want != "" && string(d.hook) != want {
		err = fmt.Errorf("fastpath chose hook %s (%s), want %s", d.hook, d.reason, want)
	}
	if err != nil {
		return nil, errors.Join(err, readErr, d.stop())
	}
	fmt.Printf("   It accelerates at hook %s.\n", d.hook)
	return d, nil
}

// waitReady asks for the status until a look at the kernel has led to a hook.
func (d *daemon) waitReady(router *testkit.Netns) error {
	var last error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		select {
		case err := <-d.exited:
			d.exited <- err
			return fmt.Errorf("fastpath run ended: %v", err)
		default:
		}
		doc, err := ask(router)
		if err != nil {
			last = err
			continue
		}
		d.hook, d.reason = doc.Report.Hook, doc.Report.HookReason
		if d.hook == state.HookIngress || d.hook == early {
			return nil
		}
		last = fmt.Errorf("it has hook %q: %s", d.hook, d.reason)
	}
	return fmt.Errorf("fastpath run doesn't accelerate: %w", last)
}

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
