// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"fastpath/src/state"
)

// contest is a Manager whose two ports have just got an engine that must earn its place.
func contest(t *testing.T) (m *Manager, tr *trial, ports []*port) {
	t.Helper()
	m = manager(t, 256*mb)
	for i, name := range []string{"lan", "wan"} {
		p := &port{link: state.Link{Index: 1000 + i, Name: name}, want: state.Engine{Kind: state.EngineXDP}}
		m.ports = append(m.ports, p)
		m.enter(p)
	}
	return m, m.trials[state.EngineXDP], m.ports
}

func TestContestants(t *testing.T) {
	m, tr, ports := contest(t)
	if len(tr.ports) != 2 || tr.phase != proving || tr.result != notMeasured {
		t.Fatalf("%+v", tr)
	}
	forcedPort := &port{link: state.Link{Name: "dmz"}, want: forced(state.EngineXDP)}
	m.enter(forcedPort)
	m.leave(forcedPort)
	m.enter(ports[0]) // again, as after a stop and a start
	if len(tr.ports) != 2 {
		t.Errorf("%+v", tr.ports)
	}
	tr.from = sample{at: time.Now()}
	m.leave(ports[0])
	if len(tr.ports) != 1 || tr.ports[0].link.Name != "wan" || tr.from != (sample{}) {
		t.Errorf("after one has gone: %+v", tr)
	}
}

// Whatever ends a pause lets the plan start the engines again.
func TestPauseEnds(t *testing.T) {
	for name, end := range map[string]func(m *Manager, tr *trial){
		"a port comes":                  func(m *Manager, tr *trial) { m.enter(m.ports[0]) },
		"the ports can't be read":       func(m *Manager, tr *trial) { m.try(tr) }, // they don't exist
		"the files are read again":      func(m *Manager, tr *trial) { m.Reload() },
		"the engine has earned its way": func(m *Manager, tr *trial) { tr.phase = earned; m.readmit(tr) },
	} {
		m, tr, ports := contest(t)
		tr.enter(paused, time.Now())
		m.pause(tr)
		o := state.Observed{Links: []state.Link{ports[0].link, ports[1].link}}
		if r := m.refused["wan"]; len(m.refused) != 2 || !strings.Contains(r.Reason, "paused") || !ports[0].retired {
			t.Fatalf("%s: paused, refused %v", name, m.refused)
		}
		m.ports = nil // the plan has stopped them
		if err := m.Observe(&o); err != nil || len(o.Refused) != 2 {
			t.Errorf("%s: refused %v, %v", name, o.Refused, err)
		}
		m.ports = ports
		end(m, tr)
		if len(m.refused) != 0 || m.trials[state.EngineXDP] == tr && tr.phase == paused {
			t.Errorf("%s: still refused: %v, phase %s", name, m.refused, tr.phase)
		}
	}
}

// One that failed is tried again when a port has changed.
func TestFailedIsTriedAgain(t *testing.T) {
	m, tr, ports := contest(t)
	tr.enter(failed, time.Time{})
	m.refuseAll(tr, "steps aside: because")
	m.ports = ports[1:]
	m.enter(ports[1])
	if len(m.refused) != 0 || tr.phase != proving || tr.result != notMeasured {
		t.Errorf("refused %v, %+v", m.refused, tr)
	}
}

// A port that is made anew soon after the verdict doesn't have all others tried
// again with it.
func TestVerdictStands(t *testing.T) {
	m, tr, ports := contest(t)
	want := ports[0].want
	tr.enter(failed, time.Now().Add(retryTime))
	tr.result = "steps aside: because"
	m.refuseAll(tr, tr.result)
	m.ports = nil
	again := ports[0].link
	again.Index += 100
	m.links = []state.Link{again, ports[1].link, {Index: 7, Name: "dmz"}}
	if err := m.Start("lan", want); err != nil || m.refused["lan"].Reason != tr.result || m.refused["lan"].print.index != again.Index {
		t.Errorf("refused %v, %v", m.refused, err)
	}
	if tr.phase != failed || len(m.refused) != 2 || m.base != nil {
		t.Errorf("all are tried again: %+v", tr)
	}
	for name, stands := range map[string]bool{
		"another port":   tr.stands("dmz", want, time.Now()),
		"another engine": tr.stands("lan", forced(want.Kind), time.Now()),
		"much later":     tr.stands("lan", want, time.Now().Add(2*retryTime)),
		"no trial":       (*trial)(nil).stands("lan", want, time.Now()),
	} {
		if stands {
			t.Errorf("%s: the verdict stands", name)
		}
	}
}

// One trial at a time: the other kind's waits while the first is paused.
func TestOnePause(t *testing.T) {
	m, tr, _ := contest(t)
	if m.otherPaused(state.EngineXDP) || m.otherPaused(state.EngineAFXDP) {
		t.Error("nobody is paused")
	}
	tr.enter(paused, time.Now())
	if m.otherPaused(state.EngineXDP) || !m.otherPaused(state.EngineAFXDP) {
		t.Error("xdp is paused, so afxdp has to wait, and it not for itself")
	}
}

// When flowsync ends nobody looks after flows any more.
func TestDeserted(t *testing.T) {
	m, _, ports := contest(t)
	m.deserted(&base{}, errors.New("of another time"))
	if len(m.refused) != 0 {
		t.Error("refused for what isn't there any more")
	}
	m.deserted(m.base, errors.New("one\ntwo"))
	if r := m.refused["lan"]; len(m.refused) != 2 || !strings.HasSuffix(r.Reason, "one; two") || !ports[0].retired || !ports[1].retired {
		t.Errorf("refused %v", m.refused)
	}
}
