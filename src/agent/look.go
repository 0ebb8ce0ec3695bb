// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"slices"
	"strings"
	"time"

	"fastpath/src/plan"
	"fastpath/src/state"
	"fastpath/src/status"
)

// maxVanished bounds the looks in a row because a device vanished between
// look and apply; a device that does it more often waits for the back-off.
const maxVanished = 5

const maxBackoff = time.Minute

// look is one full look: the kernel is observed, planned and changed until it
// is as it should be or an error says that it can't be now. The error is
// that of Observe, and nil when the kernel could be observed.
func (a *Agent) look() error {
	var problems []string
	var observeErr error
	for range maxVanished {
		var again bool
		problems, again, observeErr = a.lookOnce()
		if !again {
			break
		}
	}
	a.last.Count++
	a.last.Time = time.Now()
	a.due.settled, a.due.burst = time.Time{}, time.Time{}
	wait := fullLook
	if len(problems) == 0 {
		a.fails = 0
		a.last.RetrySeconds = 0
	} else {
		a.fails++
		wait = backoff(a.fails)
		a.last.RetrySeconds = wait.Seconds()
	}
	hopeless := a.last.Count == 1 && observeErr != nil && a.Fatal(observeErr) // Run returns it
	if !hopeless && !slices.Equal(problems, a.last.Problems) {
		for _, p := range problems {
			a.Log.Error(p)
		}
	}
	a.last.Problems = problems
	a.due.look = a.last.Time.Add(wait)
	return observeErr
}

// backoff is 1 s after the first failure, then doubled up to maxBackoff.
func backoff(fails int) time.Duration {
	return min(time.Second<<min(fails-1, 6), maxBackoff)
}

// lookOnce asks for another look when a device vanished between look and apply.
func (a *Agent) lookOnce() (problems []string, again bool, err error) {
	query := state.Query{HookNumber: a.conf.Main.HookNumber}
	o, err := a.Kernel.Observe(query)
	if err != nil && !a.Fatal(err) {
		o, err = a.Kernel.Observe(query)
	}
	if err != nil {
		return []string{err.Error()}, a.Vanished(err), err
	}
	a.release = o.Release
	a.check.use(query.HookNumber)
	o.Hooks = a.check.result.Override(o.Hooks)
	want, report := plan.Desired(a.conf, o)
	steps := plan.Diff(want, o)
	if report.Hook != a.report.Hook || report.HookReason != a.report.HookReason {
		a.Log.Info("hook "+string(report.Hook), "reason", report.HookReason)
	}
	a.report = report

	done := a.apply(steps)
	if len(steps) > 0 {
		a.plan = status.Plan{Time: time.Now(), Steps: done.steps}
	}
	problems = done.problems
	if a.undone = a.comesBack(steps, done); a.undone {
		problems = append(problems, "done before, but found undone: "+a.done)
	}
	a.carry(want, o, done)
	if done.tableChanged {
		a.rebase()
	}
	return problems, done.vanished, nil
}

// comesBack notices steps that were done in the look before and are wanted
// again: somebody undoes them, or the kernel shows something else than was
// set. That must not become an endless quick loop.
func (a *Agent) comesBack(steps []state.Step, done applied) bool {
	var text []string
	for _, s := range steps {
		text = append(text, s.String())
	}
	before := a.done
	a.done = strings.Join(text, "; ")
	if len(done.problems) > 0 {
		a.done = ""
	}
	return a.done != "" && a.done == before
}

// applied is what came of a plan's steps.
type applied struct {
	steps          []status.Step
	problems       []string
	vanished       bool
	tableFailed    bool // or left out
	offloadsFailed bool
	tableChanged   bool // or a counting chain
}

// apply does the steps in order, each with one more try. An error doesn't
// keep the others from being done, as far as plan.Diff's order doesn't demand
// it: see waits.
func (a *Agent) apply(steps []state.Step) applied {
	var done applied
	for _, s := range steps {
		if done.waits(s) {
			done.steps = append(done.steps, status.Step{Text: s.String(), Error: "left out after the error before"})
			done.tableFailed = done.tableFailed || isTable(s)
			continue
		}
		err := a.Kernel.Apply(s)
		if err != nil && !a.Vanished(err) {
			err = a.Kernel.Apply(s)
		}
		done.record(s, err, err != nil && a.Vanished(err))
		if err == nil {
			a.Log.Info(s.String())
		}
	}
	return done
}

// waits tells whether s relies on a step that failed. Table steps build on
// each other, and on the offloads set before them: an early_ingress flowtable
// must not get packets that GRO joined. Offloads that are given back or set
// after the table rely on that it has left the hook.
func (d *applied) waits(s state.Step) bool {
	switch {
	case isTable(s):
		return d.tableFailed || d.offloadsFailed
	case isOffloads(s):
		return d.tableFailed
	}
	return false
}

func (d *applied) record(s state.Step, err error, vanished bool) {
	step := status.Step{Text: s.String()}
	if err != nil {
		step.Error = err.Error()
		d.problems = append(d.problems, step.Error) // it names the step
		d.vanished = d.vanished || vanished
		d.tableFailed = d.tableFailed || isTable(s)
		d.offloadsFailed = d.offloadsFailed || isOffloads(s)
	} else {
		d.tableChanged = d.tableChanged || isTable(s) || isCheck(s)
	}
	d.steps = append(d.steps, step)
}

func isTable(s state.Step) bool {
	switch s.(type) {
	case state.ReplaceTable, state.DeleteTable, state.AddDevices, state.RemoveDevices, state.ReplaceRules:
		return true
	}
	return false
}

func isCheck(s state.Step) bool {
	switch s.(type) {
	case state.AddCheck, state.RemoveCheck:
		return true
	}
	return false
}

func isOffloads(s state.Step) bool {
	switch s.(type) {
	case state.SetOffloads, state.RestoreOffloads:
		return true
	}
	return false
}

// carry remembers what the kernel should have now, for the samples.
func (a *Agent) carry(want state.State, o state.Observed, done applied) {
	table := want.Table
	if done.tableFailed {
		table = o.Table
	}
	a.carried = nil
	if table == nil || len(table.Flowtable.Devices) == 0 {
		a.due.sample = time.Time{}
		return
	}
	a.carried = &carried{
		number: table.Flowtable.Number, devices: table.Flowtable.Devices,
		checks: want.Checks, exact: exact(o, want),
	}
	if a.due.sample.IsZero() {
		a.due.sample = time.Now()
	}
}

// errStopping is the answer to requests that come too late.
var errStopping = errors.New("fastpath is stopping")
