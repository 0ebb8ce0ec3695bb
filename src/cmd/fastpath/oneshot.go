// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

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
	doc, err := status.AskDocument(c.runDir)
	runs := err == nil
	if runs {
		inform(&o, doc)
	} else if !errors.Is(err, status.ErrNotRunning) {
		return c.fail("plan", err)
	}
	var lists config.DropLists
	lists.Fill(&conf)
	want, report := decide.Desired(conf, o)
	steps := decide.Diff(want, o)
	if runs && lists.Partial() {
		report.Notices = append(report.Notices, "drop sections: the daemon keeps what it could read last; this plan can't tell what that is")
		steps = slices.DeleteFunc(steps, dropsBySource)
	}
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

func dropsBySource(s state.Step) bool {
	switch s.(type) {
	case state.SetDrop, state.RemoveDrop:
		return true
	}
	return false
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
