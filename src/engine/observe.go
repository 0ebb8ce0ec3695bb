// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"fastpath/src/state"
)

// Observe fills in which engines run and which are refused. o.Links is the
// kernel's word: an engine runs while the link shows our program on the device;
// what is left of one whose device is gone, or was changed so that the engine no
// longer fits, is freed, and the plan starts it again.
func (m *Manager) Observe(o *state.Observed) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.links = o.Links
	m.path = "the slow path"
	if t := o.Table; t != nil && len(t.Flowtable.Devices) > 0 {
		m.path = "the flowtable"
	}
	var err error
	for _, p := range slices.Clone(m.ports) {
		if e := m.observe(p); err == nil {
			err = e
		}
	}
	m.restaff()
	if e := m.observeDrop(&o.Drop); err == nil {
		err = e
	}
	for name, r := range m.refused {
		i := slices.IndexFunc(o.Links, func(l state.Link) bool { return l.Name == name })
		if i < 0 || !r.holds(o.Links[i], m.own[o.Links[i].XDP]) {
			delete(m.refused, name)
		}
	}
	o.Engines, o.Refused, o.Trials = map[string]state.Engine{}, map[string]state.Refusal{}, map[string]string{}
	for _, p := range m.ports {
		o.Engines[p.link.Name] = p.want
		if t := m.trials[p.want.Kind]; t != nil && !p.want.Force {
			o.Trials[p.link.Name] = t.result
		}
	}
	for name, r := range m.refused {
		o.Refused[name] = r.Refusal
	}
	return err
}

// restaff brings the workers back that went with a port, as where two ports
// vanished at once. Ports that they can't serve any more step aside.
func (m *Manager) restaff() {
	if m.base == nil {
		return
	}
	err := m.staff()
	if err == nil {
		return
	}
	for _, p := range m.served() {
		m.stepAside(p, "no workers any more: "+explain(err, p.link, p.want))
	}
}

// observe brings p up to date with its link.
func (m *Manager) observe(p *port) error {
	i := slices.IndexFunc(m.links, func(l state.Link) bool { return l.Index == p.link.Index })
	if i < 0 || m.links[i].XDP != p.prog {
		return m.stop(p)
	}
	renamed := p.link.Name != m.links[i].Name
	p.link = m.links[i]
	if p.seen == 0 {
		p.seen = p.link.Queues
	}
	if !p.xdp() && (p.link.Queues != p.seen || p.link.MTU > maxMTU) {
		return m.stop(p) // Start finds out what is possible now
	}
	if addr := m.addresses(p); addr != p.addr {
		p.addr = addr
		if err := m.base.set.PutPort(p.link.Index, &p.addr); err != nil {
			return err
		}
	}
	if renamed {
		m.tellSync()
	}
	return nil
}

// stepAside takes the flows off a port at once; the plan, which sees it refused,
// does the rest in its order. What can't be sent by it any more must go up.
func (m *Manager) stepAside(p *port, reason string) {
	p.retired = true
	m.tellSync()
	if err := m.base.set.DeleteDevice(p.slot); err != nil {
		m.Log.Error("engine", "port", p.link.Name, "error", err)
	}
	p.output = false
	m.refuse(p.link, p.want, reason)
}

// Reload lets everything be tried again that was refused: the owner has been at
// the configuration, and perhaps at more.
func (m *Manager) Reload() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.refused)
	for kind, t := range m.trials {
		if t.phase == paused || t.phase == failed {
			delete(m.trials, kind)
		}
	}
}
