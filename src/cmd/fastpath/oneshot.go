// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"

	"fastpath/src/config"
	"fastpath/src/kernel"
	decide "fastpath/src/plan"
	"fastpath/src/state"
	"fastpath/src/status"
)

// exitSteps is plan's answer that there is something to do.
const exitSteps = 2

// plan prints the steps that run would take. What behaviour showed about
// early_ingress, which engines run and what the traffic is, only the daemon knows: without it,
// these would look like a difference, or the lack of them.
func plan(c *call) int {
	conf, err := config.Load(c.dirs())
	if err != nil {
		return c.fail("plan", err)
	}
	log := slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	k, err := kernel.New(c.runDir, log)
	if err != nil {
		return c.fail("plan", err)
	}
	defer k.Close()
	o, err := k.Observe(state.Query{HookNumber: conf.Main.HookNumber})
	if err != nil {
		return c.fail("plan", err)
	}
	switch doc, err := status.AskDocument(c.runDir); {
	case err == nil:
		inform(&o, doc)
	case !errors.Is(err, status.ErrNotRunning):
		return c.fail("plan", err)
	}
	new(config.DropLists).Fill(&conf)
	want, report := decide.Desired(conf, o)
	steps := decide.Diff(want, o)
	fmt.Fprintf(c.stderr, "hook %s: %s\n", report.Hook, report.HookReason)
	for _, n := range report.Notices {
		fmt.Fprintf(c.stderr, "notice: %s\n", n)
	}
	if len(steps) == 0 {
		fmt.Fprintln(c.stdout, "nothing to do")
		return exitOK
	}
	for _, s := range steps {
		fmt.Fprintln(c.stdout, s)
	}
	return exitSteps
}

// inform adds to one look what only the daemon knows.
func inform(o *state.Observed, doc status.Document) {
	o.Hooks = doc.Early.Override(o.Hooks)
	o.Engines, o.Refused = doc.Engines, doc.Refused
	o.Mix, o.Multicast = doc.Mix, doc.Multicast
	o.Passive = doc.Passive
}

// cleanup is for a router whose daemon is gone; one that runs would bring
// everything back at once.
func cleanup(c *call) int {
	log, err := c.logger()
	if err != nil {
		return c.wrongUse("cleanup", "%v", err)
	}
	one, err := acquire(c.runDir)
	if err != nil {
		return c.fail("cleanup", err)
	}
	k, err := kernel.New(c.runDir, log)
	if err != nil {
		return c.fail("cleanup", errors.Join(err, one.release()))
	}
	err = k.Cleanup()
	if err == nil {
		err = unmarkConfigured(c.dirs())
	}
	if err := errors.Join(err, k.Close(), one.release()); err != nil {
		return c.fail("cleanup", err)
	}
	return exitOK
}
