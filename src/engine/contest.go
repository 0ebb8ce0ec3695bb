// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"
)

// beat is the Manager's part of each second with flows, and with a paused trial.
func (m *Manager) beat() {
	if !m.mu.TryLock() {
		return // somebody starts or stops an engine; a second later will do
	}
	defer m.mu.Unlock()
	m.checkWatched()
	m.checkProved()
	if m.base != nil {
		m.base.crew.tellLast(m.Log)
	}
	for kind, t := range m.trials {
		if len(t.ports) > 0 && t.due(time.Now()) && !m.otherPaused(kind) {
			m.try(t)
		}
	}
}

// otherPaused: one trial at a time, or they would measure each other.
func (m *Manager) otherPaused(kind string) bool {
	for k, t := range m.trials {
		if k != kind && t.phase == paused {
			return true
		}
	}
	return false
}

// try takes t's next sample and does what follows from it.
func (m *Manager) try(t *trial) {
	var ports []int
	for _, e := range t.ports {
		ports = append(ports, e.link.Index)
	}
	s, err := m.readSample(ports)
	if err != nil {
		m.Log.Debug("sample", "error", err) // a device is gone, as the next look shows
		if t.phase == paused {
			m.readmit(t)
		}
		t.enter(proving, time.Now().Add(settleTime))
		return
	}
	if !t.add(s) {
		return
	}
	switch t.phase {
	case paused:
		m.pause(t)
	case failed:
		t.result = "steps aside: " + t.verdict(m.path)
		m.refuseAll(t, t.result)
	case earned:
		t.result = "it earns its place: " + t.verdict(m.path)
		m.Log.Info("engine stays", "engine", t.ports[0].want.Kind, "reason", t.result)
		m.readmit(t)
	case proving:
		m.readmit(t)
	}
}

// pause takes the engine off the flows, to measure what they cost without it.
func (m *Manager) pause(t *trial) {
	m.refuseAll(t, "paused for some seconds, to measure what the path without it costs")
	var again func()
	again = func() {
		m.beat()
		m.mu.Lock()
		defer m.mu.Unlock()
		if t.phase == paused && m.trials[t.ports[0].want.Kind] == t {
			time.AfterFunc(time.Second, again)
		}
	}
	time.AfterFunc(time.Second, again)
}

// refuseAll refuses all of t's ports; flows leave those that still run at once.
func (m *Manager) refuseAll(t *trial, reason string) {
	for _, e := range t.ports {
		if p := m.port(e.link.Name); p != nil {
			p.retired = true
		}
	}
	m.tellSync()
	for _, e := range t.ports {
		m.refuse(e.link, e.want, reason)
	}
}

// readmit lets the plan start t's engines again.
func (m *Manager) readmit(t *trial) {
	for _, e := range t.ports {
		if r := m.refused[e.link.Name]; r != nil && r.Want == e.want {
			delete(m.refused, e.link.Name)
		}
	}
	m.Changed()
}

// enter makes a port that has just started part of its kind's trial. A port that
// comes while the others are paused, or have failed, makes all be tried anew.
func (m *Manager) enter(p *port) {
	if p.want.Force {
		return
	}
	e := entrant{p.link, p.want}
	t := m.trials[p.want.Kind]
	switch {
	case t == nil:
		t = newTrial(time.Now())
		m.trials[p.want.Kind] = t
	case t.phase == failed:
		m.readmit(t)
		t.result = notMeasured
		t.enter(proving, time.Now().Add(settleTime))
	case t.phase == paused:
		m.readmit(t)
		t.enter(proving, time.Now().Add(retryTime))
	case t.phase == proving:
		t.enter(proving, maxTime(t.after, time.Now().Add(settleTime)))
	}
	t.ports = append(slices.DeleteFunc(t.ports, func(x entrant) bool { return x.link.Name == e.link.Name }), e)
}

// leave takes a port that stops out of its kind's trial, unless that is why it stops.
func (m *Manager) leave(p *port) {
	t := m.trials[p.want.Kind]
	if t == nil || t.phase != proving || p.want.Force {
		return
	}
	t.ports = slices.DeleteFunc(t.ports, func(e entrant) bool { return e.link.Index == p.link.Index })
	t.enter(proving, maxTime(t.after, time.Now().Add(settleTime)))
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
