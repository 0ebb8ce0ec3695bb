// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	"fastpath/src/config"
	"fastpath/src/state"
)

// An engine has no way back for a packet, and the rules know l3 devices only:
// so the flows between two l3 devices are an engine's if every port below both
// has it. All other flows of these ports stay on the flowtable.

// chooseEngines settles which ports get the engine that they are asked to
// have, and between which l3 devices it carries flows.
func (s *survey) chooseEngines() {
	s.engines = map[string][]string{}
	held := s.holdEngines()
	for _, p := range s.ports {
		if s.wish(p); p.engine.Kind != "" {
			p.refused = cmp.Or(held, s.refuse(p))
		}
	}
	for _, st := range s.stacks {
		if st.engine, st.lacks = s.engineOf(st); st.engine != "" {
			s.engines[st.engine] = append(s.engines[st.engine], st.name)
		}
	}
	s.mixed()
	for kind, devices := range s.engines {
		if len(devices) < 2 {
			delete(s.engines, kind)
		}
	}
	for _, st := range s.stacks {
		s.addTunnel(st)
	}
	for _, devices := range s.engines {
		slices.Sort(devices)
	}
	for _, p := range s.ports {
		s.pair(p)
	}
}

// holdEngines is why no port may have an engine.
func (s *survey) holdEngines() string {
	if reason := hold(s.c, s.o); reason != "" {
		return reason
	}
	if !s.o.Marks.OK {
		return s.o.Marks.Reason
	}
	return ""
}

// wish is the engine that p's sections ask for, the nearest first.
func (s *survey) wish(p *port) {
	for _, section := range p.sections {
		switch kind := section.Engine; {
		case kind != config.EngineXDP && kind != config.EngineAFXDP:
		case p.engine.Kind == "":
			p.engine = state.Engine{
				Kind:     kind,
				Generic:  section.XDPMode == config.XDPGeneric,
				ZeroCopy: section.ZeroCopy,
				Force:    section.Force,
				Mark:     s.c.Main.CTMark,
			}
		case p.engine.Kind != kind:
			s.notice("port ", p.link.Name, ": sections ask for engine '", p.engine.Kind, "' and '", kind, "'; the first holds")
		}
	}
}

// engineOf is the engine that every port below st has, or else what st lacks.
func (s *survey) engineOf(st *stack) (kind, lacks string) {
	if l := s.t.byName[st.name]; l != nil && isTunnel(l) {
		return "", st.slow // see addTunnel
	}
	forced := s.forced(st)
	if st.slow != "" && !st.deep && !(st.shaped && forced) {
		return "", st.slow
	}
	if why := s.shapedAbove(st, byEngine); why != "" && !forced {
		return "", why + "; option force '1' allows it"
	}
	if lacks = s.nameless(st); lacks != "" {
		return "", lacks
	}
	without := ""
	for _, e := range st.ends {
		p := s.byLink[e.link.Index]
		switch {
		case p.engine.Kind == "" || p.refused != "" || e.why != "":
			without = cmp.Or(without, p.link.Name)
		case kind != "" && kind != p.engine.Kind:
			return "", st.name + " has ports with different engines, and rules can't tell the ports of a bridge apart"
		default:
			kind = p.engine.Kind
		}
	}
	if without == "" || kind == "" {
		return kind, ""
	}
	lacks = fmt.Sprintf("port %s of %s has no engine %s, and rules can't tell the ports of a bridge apart", without, st.name, kind)
	s.notice("no engine for the flows of ", st.name, ": ", lacks)
	return "", lacks
}

// forced: option force is on at every port below st.
func (s *survey) forced(st *stack) bool {
	return !slices.ContainsFunc(st.ends, func(e end) bool {
		p := s.byLink[e.link.Index]
		return p == nil || !p.engine.Force
	})
}

// nameless is why no rule sees both directions of st's flows by its name.
func (s *survey) nameless(st *stack) string {
	link := s.t.byName[st.name]
	if link == nil {
		return ""
	}
	if taker := s.t.taker(link); taker != nil {
		return st.name + " is part of " + taker.Name + ", by whose name rules see its packets"
	}
	if vrf := s.t.byIndex[link.Master]; vrf != nil {
		return st.name + " is in VRF " + vrf.Name + ", by whose name rules see what it receives"
	}
	onIt := func(session state.Session) bool { return session.Device == st.name }
	if !link.Addressed && slices.ContainsFunc(s.o.Sessions, onIt) {
		return st.name + " has no packets of its own but those of PPPoE, and whose they are isn't known"
	}
	return ""
}

// mixed says that flows between networks with different engines have none.
func (s *survey) mixed() {
	xdp, afxdp := s.engines[state.EngineXDP], s.engines[state.EngineAFXDP]
	if len(xdp) > 0 && len(afxdp) > 0 {
		s.notice("no engine for the flows between ", list(xdp), " (engine xdp) and ", list(afxdp),
			" (engine afxdp): both ends need the same")
	}
}

// addTunnel adds a DS-Lite tunnel to the engine of the ports below it: the
// engine pushes the outer header itself. Where the kernel doesn't tell what is
// below, its route decides, for each flow.
func (s *survey) addTunnel(st *stack) {
	link := s.t.byName[st.name]
	if link == nil || link.Kind != "ip6tnl" || st.slow != st.why {
		return
	}
	var below *stack
	if lower := s.t.byIndex[link.Lower]; lower != nil {
		below = s.walkFrom(lower.Name)
	}
	shaped := s.shapedTunnel(link, below)
	for _, kind := range []string{state.EngineXDP, state.EngineAFXDP} {
		if s.engines[kind] == nil || below != nil && !s.allHave(below, kind) {
			continue
		}
		if shaped != "" {
			s.notice("no engine for the flows of ", st.name, ": ", shaped)
			continue
		}
		st.engine = kind
		s.engines[kind] = append(s.engines[kind], st.name)
	}
}

// allHave: every port below st has the engine.
func (s *survey) allHave(st *stack, kind string) bool {
	for _, e := range st.ends {
		if p := s.byLink[e.link.Index]; p == nil || p.engine.Kind != kind || p.refused != "" {
			return false
		}
	}
	return len(st.ends) > 0
}

// pair refuses p's engine if there is nothing that it could carry flows to.
func (s *survey) pair(p *port) {
	if p.engine.Kind == "" || p.refused != "" {
		return
	}
	if len(s.carriedFor(p)) > 0 {
		return
	}
	for _, st := range p.stacks {
		p.refused = cmp.Or(p.refused, st.lacks)
	}
	p.refused = cmp.Or(p.refused, "an engine needs two ends, and there is no second network all of whose ports have it")
}

// has is the engine that p gets; its Kind is "" if it gets none.
func (p *port) has() state.Engine {
	if p.refused != "" {
		return state.Engine{}
	}
	return p.engine
}

// wantedEngines are all ports' engines.
func (s *survey) wantedEngines() map[string]state.Engine {
	want := map[string]state.Engine{}
	for _, p := range s.ports {
		if e := p.has(); e.Kind != "" {
			want[p.link.Name] = e
		}
	}
	return want
}

// carriedFor are the l3 devices above p whose flows its engine carries.
func (s *survey) carriedFor(p *port) (names []string) {
	for _, st := range p.stacks {
		if st.engine != "" && s.engines[st.engine] != nil {
			names = append(names, st.name)
		}
	}
	return names
}

// engineReport is what carries a port's flows, and why.
func (s *survey) engineReport(p *port, h hook) (engine, reason string) {
	if e := p.has(); e.Kind != "" {
		reason = fmt.Sprintf("option engine '%s': for flows between %s and other networks that have it", e.Kind, list(s.carriedFor(p)))
		if trial := s.o.Trials[p.link.Name]; trial != "" {
			reason += "; " + trial
		}
		if why := s.forcedPast(p); why != "" {
			reason += "; by option force, although " + why
		}
		return e.Kind, reason
	}
	engine, reason = config.EngineFlowtable, "the default"
	switch {
	case !p.carries:
		engine, reason = config.EngineNone, p.why
	case h.hook == state.HookOff:
		engine, reason = config.EngineNone, h.reason
	case p.refused != "":
		reason = "the flowtable carries the port"
	}
	if p.refused != "" && p.refused != reason {
		reason = "engine " + p.engine.Kind + ": " + p.refused + "; " + reason
	}
	return engine, reason
}
