// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"sort"
	"strings"

	"fastpath/src/config"
	"fastpath/src/state"
)

// stack is one l3 device with the links below it.
type stack struct {
	name     string
	networks []string
	ends     []end
	waits    []string // devices that don't exist yet
	why      string   // why a flowtable can have none of them, in the words of walk
	slow     string   // why its flows stay off the flowtable; "" if they don't
	deep     bool     // for the reason alone that a flowtable can't hold its encapsulation
	limits   []limit  // of tc, on its links above the ports
	shaped   bool     // for the reason alone that a flowtable would pass a shaper by
	engine   string   // that all ports below it have
	lacks    string   // why there is none
}

// survey is the router as the configuration means it.
type survey struct {
	c        config.Config
	o        state.Observed
	names    names
	t        *topology
	stacks   []*stack            // sorted by name
	ports    []*port             // sorted by name
	byLink   map[int]*port       // by interface index
	excluded map[string]string   // device whose flows are never added → reason
	engines  map[string][]string // kind → l3 devices between which it carries flows
	notices  []string
}

func newSurvey(c config.Config, o state.Observed) *survey {
	s := &survey{c: c, o: o, names: newNames(c, o), excluded: map[string]string{}}
	s.t = newTopology(o, pppoeDevices(c, o))
	s.noteOthers()
	s.noteSetters()
	s.stacks = s.findStacks()
	s.excludeTunnels()
	s.excludePorts()
	s.excludeShaped()
	s.excludeProblems()
	s.waiting()
	s.lateNetifd()
	s.ports = s.findPorts()
	s.noteXDP()
	s.denyFraglist()
	s.chooseEngines()
	s.noteShaped()
	s.offerDSLite()
	return s
}

func (s *survey) notice(words ...string) { s.notices = append(s.notices, strings.Join(words, "")) }

// findStacks takes the l3 devices of the firewall's zones and of the networks
// that port sections name; then, for a device that is in none of those (plain
// Debian has neither), the l3 devices above it.
func (s *survey) findStacks() []*stack {
	found := map[string]*stack{}
	add := func(device, network string) {
		st := found[device]
		if st == nil {
			st = s.walkFrom(device)
			found[device] = st
		}
		if network != "" && !slices.Contains(st.networks, network) {
			st.networks = append(st.networks, network)
		}
	}
	for _, z := range s.c.Zones {
		s.zone(z, add)
	}
	for _, p := range s.c.Ports {
		for _, network := range p.Networks {
			if device := s.names.l3(network); device != "" {
				add(device, network)
			} else {
				s.notice("network ", network, " of a port section has no device (yet)")
			}
		}
	}
	inside := insides(found)
	for _, p := range s.c.Ports {
		if p.Device != "" && !inside[p.Device] {
			s.device(p.Device, add)
		}
	}
	s.misnamed(insides(found))
	stacks := make([]*stack, 0, len(found))
	for _, st := range found {
		stacks = append(stacks, st)
	}
	sort.Slice(stacks, func(i, j int) bool { return stacks[i].name < stacks[j].name })
	return stacks
}

// insides are the links in any of the stacks.
func insides(stacks map[string]*stack) map[string]bool {
	inside := map[string]bool{}
	for _, st := range stacks {
		inside[st.name] = true
		for _, e := range st.ends {
			for _, name := range e.path {
				inside[name] = true
			}
		}
	}
	return inside
}

// device adds the l3 devices above a device that a port section names. One that
// doesn't exist yet may be anything.
func (s *survey) device(name string, add func(device, network string)) {
	link := s.t.byName[name]
	if link == nil {
		add(name, "")
		return
	}
	for _, l := range s.t.l3Above(link) {
		add(l.Name, "")
	}
}

// misnamed says which port sections no port hears of: their device is but a
// part of another one, or carries the packets of others, and walk ends above it.
func (s *survey) misnamed(inside map[string]bool) {
	for _, p := range s.c.Ports {
		link := s.t.byName[p.Device]
		if link == nil || inside[p.Device] || p.Engine == config.EngineNone {
			continue
		}
		var names []string
		for _, l := range s.t.l3Above(link) {
			names = append(names, l.Name)
		}
		s.notice("the options of the port section for device ", p.Device, " have no effect: its packets come and go by ", list(names))
	}
}

// zone adds the l3 devices of a zone's networks and the zone's own devices. A
// pattern may fit the links below them as well, whose names no packet bears.
func (s *survey) zone(z config.Zone, add func(device, network string)) {
	for _, network := range z.Networks {
		if device := s.names.l3(network); device != "" {
			add(device, network)
		}
	}
	for _, i := range s.o.Interfaces {
		if i.Zone == z.Name && i.L3Device != "" {
			add(i.L3Device, i.Name)
		}
	}
	for _, pattern := range z.Devices {
		prefix, many := wildcard(pattern)
		if !many {
			add(pattern, "")
			continue
		}
		for i := range s.o.Links {
			if l := &s.o.Links[i]; strings.HasPrefix(l.Name, prefix) && s.t.isL3(l) {
				add(l.Name, "")
			}
		}
	}
}

// walkFrom makes the stack of one l3 device. A PPPoE device that doesn't exist
// yet is walked all the same where its interface tells what is below: a redial
// then changes nothing at the port.
func (s *survey) walkFrom(device string) *stack {
	st := &stack{name: device}
	st.why = s.walkTo(st, maxEncaps)
	if st.why != "" && s.isPPP(device) {
		// An engine holds two tags below the PPPoE header.
		again := &stack{name: device}
		if s.walkTo(again, maxEncaps+1) == "" {
			st.ends, st.waits, st.deep = again.ends, again.waits, true
		}
	}
	return st
}

func (s *survey) isPPP(device string) bool {
	link := s.t.byName[device]
	return link != nil && link.Kind == "ppp" || s.t.pppoe[device] != ""
}

// walkTo fills in what is below st, with so many encapsulations at most.
func (s *survey) walkTo(st *stack, limit int) (why string) {
	w := walk{t: s.t, limit: limit, onPath: map[int]bool{}, seen: map[visit]string{}}
	if link := s.t.byName[st.name]; link != nil {
		why = w.down(link, 0)
	} else if w.waits = []string{st.name}; s.t.pppoe[st.name] != "" {
		w.path = []string{st.name}
		why = w.session(st.name, 0)
	}
	st.ends, st.waits = w.ends, w.waits
	return why
}

// waiting says what isn't there yet of the stacks that would be accelerated.
func (s *survey) waiting() {
	for _, st := range s.stacks {
		if st.slow != "" {
			continue
		}
		for _, device := range st.waits {
			s.notice("waiting for device ", device, ofNetworks(st.networks))
		}
	}
}

func ofNetworks(networks []string) string {
	if len(networks) == 0 {
		return ""
	}
	return " (network " + strings.Join(networks, ", ") + ")"
}
