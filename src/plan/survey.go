// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
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
	why      string   // why it has no ends, in the words of walk
	slow     string   // why its flows stay on the slow path; "" if they don't
}

// survey is the router as the configuration means it.
type survey struct {
	c        config.Config
	o        state.Observed
	names    names
	t        *topology
	stacks   []*stack          // sorted by name
	ports    []*port           // sorted by name
	excluded map[string]string // device whose flows are never added → reason
	notices  []string
}

func newSurvey(c config.Config, o state.Observed) *survey {
	s := &survey{c: c, o: o, names: newNames(c, o), excluded: map[string]string{}}
	s.t = newTopology(o, pppoeDevices(c, o))
	s.offerFW4(c, o)
	s.stacks = s.findStacks()
	s.excludeTunnels()
	s.excludePorts()
	s.excludeProblems()
	s.waiting()
	s.ports = s.findPorts()
	return s
}

func (s *survey) notice(words ...string) { s.notices = append(s.notices, strings.Join(words, "")) }

// findStacks takes the l3 devices of the firewall's zones, then what port
// sections name besides. Without zones (plain Debian) only the latter are left.
func (s *survey) findStacks() []*stack {
	found := map[string]*stack{}
	inside := map[string]bool{} // links in any stack
	add := func(device, network string) {
		st := found[device]
		if st == nil {
			st = s.walkFrom(device)
			found[device] = st
			for _, e := range st.ends {
				for _, name := range e.path {
					inside[name] = true
				}
			}
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
		if p.Device != "" && !inside[p.Device] {
			add(p.Device, "")
		}
	}
	stacks := make([]*stack, 0, len(found))
	for _, st := range found {
		stacks = append(stacks, st)
	}
	slices.SortFunc(stacks, func(a, b *stack) int { return strings.Compare(a.name, b.name) })
	return stacks
}

// zone adds the l3 devices of a zone's networks and the zone's own devices.
func (s *survey) zone(z config.Zone, add func(device, network string)) {
	for _, network := range z.Networks {
		if device := s.names.l3(network); device != "" {
			add(device, network)
		}
	}
	for _, pattern := range z.Devices {
		prefix, many := wildcard(pattern)
		if !many {
			add(pattern, "")
			continue
		}
		for i := range s.o.Links {
			if name := s.o.Links[i].Name; strings.HasPrefix(name, prefix) {
				add(name, "")
			}
		}
	}
}

// walkFrom makes the stack of one l3 device. A PPPoE device that doesn't exist
// yet is walked all the same where its interface tells what is below: a redial
// then changes nothing at the port.
func (s *survey) walkFrom(device string) *stack {
	st := &stack{name: device}
	w := walk{t: s.t, onPath: map[int]bool{}, seen: map[visit]string{}}
	if link := s.t.byName[device]; link != nil {
		st.why = w.down(link, 0)
	} else if w.waits = []string{device}; s.t.pppoe[device] != "" {
		w.path = []string{device}
		st.why = w.session(device, 0)
	}
	st.ends, st.waits = w.ends, w.waits
	return st
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

// offerFW4 offers to switch fw4's own flowtable off.
func (s *survey) offerFW4(c config.Config, o state.Observed) {
	switch {
	case c.Firewall.FlowOffloading:
		s.notice(config.Problem{Pos: c.Firewall.FlowOffloadingPos, Reason: "fw4's own flow_offloading is on; " +
			"to accelerate with fastpath instead, set it to '0' and reload the firewall"}.String())
	case o.FW4.Offload:
		s.notice("fw4's own flow_offloading is on in the kernel, but not in /etc/config/firewall: reload the firewall")
	}
}

func ofNetworks(networks []string) string {
	if len(networks) == 0 {
		return ""
	}
	return " (network " + strings.Join(networks, ", ") + ")"
}
