// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"

	"fastpath/src/config"
)

// An exclusion is a rule, never a gap in the device list: the rule decides what
// is added, and a flow that is added is accelerated at least in the direction
// that enters by a listed device.

// excludeTunnels keeps flows through tunnels that no flowtable carries on the slow
// path, whether or not a zone names the tunnel.
func (s *survey) excludeTunnels() {
	named := make(map[string]*stack, len(s.stacks))
	for _, st := range s.stacks {
		named[st.name] = st
	}
	for i := range s.o.Links {
		l := &s.o.Links[i]
		if !isTunnel(l) {
			continue
		}
		if st := named[l.Name]; st != nil {
			if st.why != "" {
				s.excluded[l.Name] = st.why
			}
			continue
		}
		st := s.walkFrom(l.Name)
		why := cmp.Or(st.why, s.shapedAbove(st, byIngress))
		if why == "" {
			continue
		}
		s.excluded[l.Name] = why
		if l.Up && outerHeader[l.Kind] > 0 {
			s.notice("no flowtable for ", l.Name, ": ", why)
		}
	}
}

// excludePorts does what sections with engine 'none' ask for. A device's name
// is excluded even before the device exists, so that its coming changes no rule.
func (s *survey) excludePorts() {
	for _, p := range s.c.Ports {
		if p.Engine != config.EngineNone {
			continue
		}
		for _, network := range p.Networks {
			if device := s.names.l3(network); device != "" {
				s.excluded[device] = "option engine 'none' for network " + network
			}
		}
		if p.Device != "" {
			s.excludeDevice(p.Device)
		}
	}
}

// excludeDevice excludes whatever runs through a device, also by a device that
// may get its address later. Packets of a bridge port come with the bridge as
// iifname, so the whole bridge is excluded.
func (s *survey) excludeDevice(device string) {
	reason := "option engine 'none' for device " + device
	link := s.t.byName[device]
	if link == nil {
		s.excluded[device] = reason
		return
	}
	for _, l := range s.t.above(link) {
		if taker := s.t.taker(l); taker != nil {
			s.notice("rules can't tell the ports of a ", taker.Kind, " apart: engine 'none' for ", device,
				" excludes all of ", taker.Name)
			continue
		}
		s.excluded[l.Name] = reason
	}
}

// excludeProblems excludes the l3 devices that can't be resolved, and settles
// which stacks stay slow.
func (s *survey) excludeProblems() {
	for _, st := range s.stacks {
		if _, out := s.excluded[st.name]; !out && st.why != "" {
			s.excluded[st.name] = st.why
		}
		st.slow = s.excluded[st.name]
		st.deep = st.deep && st.slow == st.why
	}
}
