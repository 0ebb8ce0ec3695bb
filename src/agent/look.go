// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"maps"
	"slices"
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
	a.due.settled, a.due.burst = a.held, time.Time{}
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

// lookOnce asks for another look when a device vanished between look and
// apply, and when an engine was started or stopped: whether the port took it,
// or why not, shows only then.
func (a *Agent) lookOnce() (problems []string, again bool, err error) {
	a.lists.Fill(&a.conf)
	query := state.Query{HookNumber: a.conf.Main.HookNumber}
	o, err := a.Kernel.Observe(query)
	if err != nil && !a.Fatal(err) {
		o, err = a.Kernel.Observe(query)
	}
	if err != nil {
		return []string{err.Error()}, a.Vanished(err), err
	}
	o.Mix, o.Multicast = a.mix.observed(), a.mix.multicast(time.Now(), o.Multicast)
	a.seen = o
	a.check.use(query.HookNumber)
	o.Hooks = a.check.result.Override(o.Hooks)
	want, report := plan.Desired(a.conf, o)
	want = a.rated(want, o)
	steps := plan.Diff(want, o)
	if report.Hook != a.report.Hook || report.HookReason != a.report.HookReason {
		a.Log.Info("hook "+string(report.Hook), "reason", report.HookReason)
	}
	a.report = report

	done := a.apply(steps)
	if len(steps) > 0 {
		a.plan = status.Plan{Time: time.Now(), Steps: done.steps}
		a.last.Steps += uint64(len(done.steps))
		a.last.FailedSteps += done.failed
	}
	problems = done.problems
	if a.undone = a.comesBack(steps, done); a.undone {
		problems = append(problems, "done before, but found undone: "+a.done)
	}
	if relearns(want, o) && !done.tableFailed {
		a.relearnt(o)
	}
	a.carry(want, o, done)
	a.follow(steps, done)
	if done.changed {
		a.rebase()
	}
	return problems, done.vanished || done.engines && !a.undone, nil
}

// comesBack notices steps that were done in the look before and are wanted
// again: somebody undoes them, or the kernel shows something else than was
// set. That must not become an endless quick loop.
func (a *Agent) comesBack(steps []state.Step, done applied) bool {
	before := a.done
	a.done = text(steps)
	if len(done.problems) > 0 {
		a.done = ""
	}
	return a.done != "" && a.done == before
}

// applied is what came of a plan's steps.
type applied struct {
	steps       []status.Step
	problems    []string
	vanished    bool
	failed      uint64          // steps, those left out too
	tableFailed bool            // or left out
	wrong       map[string]bool // ports whose offloads weren't set
	stuck       map[string]bool // ports whose engine wasn't stopped
	changed     bool            // what counts: the table, a counting chain or an engine
	engines     bool            // one was started or stopped
}

// apply does the steps in order, each with one more try. An error doesn't
// keep the others from being done, as far as plan.Diff's order doesn't demand
// it: see waits.
func (a *Agent) apply(steps []state.Step) applied {
	done := applied{wrong: map[string]bool{}, stuck: map[string]bool{}}
	for _, s := range steps {
		if done.waits(s) {
			done.steps = append(done.steps, status.Step{Text: s.String(), Error: "left out after the error before"})
			done.fail(s)
			continue
		}
		a.feed()
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
// each other, and an early_ingress flowtable on its ports' offloads: it must
// not get packets that GRO joined. Offloads that are given back or set after
// the table rely on that it has left the hook. An engine relies on its port's
// offloads, since it would misread frames whose tag the NIC took off, and they
// stay while it can't be stopped. Nothing else waits for an engine.
func (d *applied) waits(s state.Step) bool {
	switch s := s.(type) {
	case state.StartEngine:
		return d.wrong[s.Port] || d.stuck[s.Port]
	case state.SetOffloads:
		return d.tableFailed || d.stuck[s.Port]
	case state.RestoreOffloads:
		return d.tableFailed || d.stuck[s.Port]
	case state.ReplaceTable:
		return d.tableFailed || d.joins(s.Table.Flowtable, s.Table.Flowtable.Devices)
	case state.AddDevices:
		return d.tableFailed || d.joins(s.Flowtable, s.Devices)
	}
	return isTable(s) && d.tableFailed
}

// joins: one of the devices may hand joined packets to an early flowtable.
func (d *applied) joins(f state.Flowtable, devices []string) bool {
	return f.Number != state.NumberIngress && slices.ContainsFunc(devices, func(port string) bool { return d.wrong[port] })
}

func (d *applied) record(s state.Step, err error, vanished bool) {
	step := status.Step{Text: s.String()}
	if err != nil {
		step.Error = err.Error()
		d.problems = append(d.problems, step.Error) // it names the step
		d.vanished = d.vanished || vanished
		d.fail(s)
	} else {
		d.engines = d.engines || isEngine(s)
		d.changed = d.changed || isTable(s) || isCheck(s) || isEngine(s)
	}
	d.steps = append(d.steps, step)
}

// fail remembers what later steps may rely on.
func (d *applied) fail(s state.Step) {
	d.failed++
	d.tableFailed = d.tableFailed || isTable(s)
	switch s := s.(type) {
	case state.SetOffloads:
		d.wrong[s.Port] = true
	case state.RestoreOffloads:
		d.wrong[s.Port] = true
	case state.StopEngine:
		d.stuck[s.Port] = true
	case state.SetSysctl:
		d.tableFailed = true // its rules rely on it
	}
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

func isEngine(s state.Step) bool {
	switch s.(type) {
	case state.StartEngine, state.StopEngine:
		return true
	}
	return false
}

// carry remembers what the kernel should have now, for the samples.
func (a *Agent) carry(want state.State, o state.Observed, done applied) {
	switch {
	case !done.tableFailed:
		a.table = want.Table
	case a.table == nil || o.Table == nil || !state.SameRules(a.table.Rules, o.Table.Rules):
		a.table = o.Table
	}
	now := carried{engines: slices.Sorted(maps.Keys(want.Engines))}
	if a.table != nil && len(a.table.Flowtable.Devices) > 0 {
		now.number, now.devices = a.table.Flowtable.Number, a.table.Flowtable.Devices
		now.checks, now.exact = want.Checks, exact(o, want)
	}
	a.watchDrops(want)
	if len(now.devices)+len(now.engines) == 0 {
		a.carried, a.due.sample = nil, time.Time{}
		return
	}
	a.carried = &now
	if a.due.sample.IsZero() {
		a.due.sample = time.Now()
	}
}

// errStopping is the answer to requests that come too late.
var errStopping = errors.New("fastpath is stopping")
