// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"time"

	"fastpath/src/state"
	"fastpath/src/status"
)

const (
	// sampleCheck is the time between samples while the behaviour check needs
	// them and flows exist. Else samples go with the full looks, so that both are
	// one wake-up: an idle router stays idle.
	sampleCheck = 5 * time.Second
	sampleIdle  = time.Minute
	// sampleFresh is how old a sample may be to answer a status request.
	sampleFresh = 2 * time.Second
)

// sample reads the counters and feeds the traffic's shares and the behaviour
// check. It sets the time of the next one.
func (a *Agent) sample() error {
	if a.carried == nil {
		a.due.sample = time.Time{}
		return nil
	}
	delta, err := a.measure()
	now := time.Now()
	a.due.sample = now.Add(sampleIdle)
	if a.due.look.After(now.Add(sampleIdle / 2)) {
		a.due.sample = a.due.look
	}
	if err != nil || !a.check.open(a.carried) {
		return err
	}
	flows := a.meter.Traffic().Flows
	if flows > 0 {
		a.due.sample = now.Add(sampleCheck)
	}
	if a.check.add(delta, flows, a.carried) {
		a.Log.Info("early_ingress "+string(a.check.result.Verdict), "reason", a.check.result.Reason)
		a.soon(now)
	}
	return nil
}

// rebase begins a new count after our tables were changed: counters in the
// kernel began anew, and what was counted before proves nothing about now.
func (a *Agent) rebase() {
	a.check.restart()
	if a.carried == nil {
		return
	}
	if _, err := a.measure(); err != nil {
		a.Log.Warn("counters", "error", err)
	}
	a.due.sample = time.Now().Add(sampleCheck)
}

func (a *Agent) measure() (status.Delta, error) {
	flows, err := a.Kernel.Connections()
	if err != nil {
		return status.Delta{}, fmt.Errorf("list flows: %w", err)
	}
	counters, err := a.Kernel.Counters()
	if err != nil {
		return status.Delta{}, fmt.Errorf("read counters: %w", err)
	}
	// Only the flowtable's own devices: a frame that passes a VLAN or a bridge
	// is counted by these too.
	ports := map[string]state.PortCounters{}
	for _, name := range a.carried.devices {
		if p, ok := counters.Ports[name]; ok {
			ports[name] = p
		}
	}
	counters.Ports = ports
	return a.meter.Add(time.Now(), counters, flows), nil
}

// do runs f in the loop.
func (a *Agent) do(f func()) error {
	done := make(chan struct{})
	run := func() {
		defer close(done)
		f()
	}
	select {
	case a.requests <- run:
		<-done
		return nil
	case <-a.stopped:
		return errStopping
	}
}

// Status answers the control socket.
func (a *Agent) Status() (doc status.Document, err error) {
	err = a.do(func() {
		if time.Since(a.meter.Last()) > sampleFresh {
			if err := a.sample(); err != nil {
				a.Log.Warn("counters", "error", err)
			}
		}
		doc = a.document()
	})
	return doc, err
}

// Flows answers the control socket. Flows of others' flowtables are not ours
// to list.
func (a *Agent) Flows() (flows []state.Flow, err error) {
	stopping := a.do(func() {
		if a.carried != nil {
			flows, err = a.Kernel.Flows()
		}
	})
	if stopping != nil {
		return nil, stopping
	}
	return flows, err
}

// Notify answers the control socket: it says why to look, and the look finds
// out what is new.
func (a *Agent) Notify(kind string, values map[string]string) {
	a.Log.Debug("notify", "kind", kind, "values", values)
	a.Look()
}

var _ status.Handler = (*Agent)(nil)
