// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"os"
	"slices"
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
	// sampleMix is the time between samples while the traffic seems to have
	// changed, or a change of the receive modes is being compared.
	sampleMix = 10 * time.Second
	// sampleFresh is how old a sample may be to answer a status request.
	sampleFresh = 2 * time.Second
)

// sample reads the counters and feeds the traffic's shares, the mix and the
// behaviour check. It sets the time of the next one.
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
	if err == nil {
		err = a.weigh(delta)
	}
	if a.mix.open() || a.compare.running {
		a.due.sample = now.Add(sampleMix)
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

// rebase begins a new count after our tables or engines were changed: their
// counters began anew, and what was counted before proves nothing about now.
func (a *Agent) rebase() {
	a.check.restart()
	a.mix.blind = true
	if a.carried == nil {
		return
	}
	if _, err := a.measure(); err != nil {
		a.Log.Warn("counters", "error", err)
	}
	a.due.sample = time.Now().Add(sampleCheck)
}

func (a *Agent) measure() (status.Delta, error) {
	var flows []state.Flow
	var err error
	if len(a.carried.devices) > 0 { // else the flows in a flowtable are another's
		if flows, err = a.Kernel.Connections(); err != nil {
			return status.Delta{}, fmt.Errorf("list flows: %w", err)
		}
	}
	counters, err := a.Kernel.Counters()
	if err != nil {
		return status.Delta{}, fmt.Errorf("read counters: %w", err)
	}
	// Only the flowtable's own devices and the engines' ports: a frame that
	// passes a VLAN or a bridge is counted by these too.
	ports := map[string]state.PortCounters{}
	for _, name := range slices.Concat(a.carried.devices, a.carried.engines) {
		if p, ok := counters.Ports[name]; ok {
			ports[name] = p
		}
	}
	counters.Ports = ports
	if stat, err := os.ReadFile(a.stat); err == nil { // without it nothing is recommended
		a.meter.AddStat(stat)
	}
	a.hits = counters.Rules
	a.noteDrops(counters)
	return a.meter.Add(time.Now(), counters, flows), nil
}
