// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"fastpath/src/config"
	"fastpath/src/state"
)

// hook is where the router's one flowtable takes its packets: both directions
// of a flow have to hit the same flowtable, so all ports share the hook.
type hook struct {
	hook   state.Hook
	number uint32
	reason string // in words for the owner: the option, the deciding port, the kernel's errno
}

// chooseHook takes the earliest hook that the configuration, the kernel and
// every port that carries flows allow.
func (s *survey) chooseHook() hook {
	if reason := holdFlowtable(s.c, s.o); reason != "" {
		return hook{hook: state.HookOff, reason: reason}
	}
	if len(s.devices()) == 0 {
		return hook{hook: state.HookOff, reason: "no device to accelerate (yet)"}
	}
	reason := "option hook 'ingress'"
	if s.c.Main.Hook != config.HookIngress {
		if reason = s.blocksEarly(); reason == "" {
			return hook{state.HookEarly, s.c.Main.HookNumber, s.earlyReason()}
		}
	}
	if !s.o.Hooks.Ingress.OK {
		return hook{hook: state.HookOff, reason: s.o.Hooks.Ingress.Reason}
	}
	return hook{state.HookIngress, state.NumberIngress, reason}
}

func (s *survey) earlyReason() string {
	if s.o.Hooks.Confirmed {
		return "every port delivers NAPI lists; confirmed: accelerated packets don't reach netdev ingress"
	}
	return "every port delivers NAPI lists; not confirmed yet, packets at netdev ingress are counted"
}

// devices are the names that the flowtable lists, sorted. A port whose every
// flow is excluded by a rule isn't among them: it must neither decide about the
// hook nor disturb the confirmation with packets that can't be accelerated.
func (s *survey) devices() []string {
	var names []string
	for _, p := range s.ports {
		if p.carries {
			names = append(names, p.link.Name)
		}
	}
	return names
}

// blocksEarly is why early_ingress can't be had: the kernel's answer or the first port against it.
func (s *survey) blocksEarly() string {
	if !s.o.Hooks.Early.OK {
		return s.o.Hooks.Early.Reason
	}
	for _, p := range s.ports {
		if !p.carries {
			continue
		}
		if why := s.portBlocksEarly(p); why != "" {
			return "port " + p.link.Name + " decides for all: " + why
		}
	}
	return ""
}

// portBlocksEarly is why a port has no NAPI list to offer at early_ingress:
// there is none, or GRO would have eaten it, by the driver's or by the user's
// will, or because its traffic is better off so.
func (s *survey) portBlocksEarly(p *port) string {
	if why := noList(p.link); why != "" {
		return why
	}
	if name, fixed := fixedOn(p.link.Feature); fixed {
		return name + " can't be switched off (fixed)"
	}
	if why := s.shaped(p, byEarly); why != "" {
		return why
	}
	if p.has().Generic {
		return "its engine's XDP program is in generic mode, and early_ingress would pass it by"
	}
	if s.foreignXDP(p.link) {
		return fmt.Sprintf("XDP program %d is attached, and early_ingress would pass by one in generic mode", p.link.XDP)
	}
	if s.c.GRO[p.link.Name] {
		return "option gro '1' in /etc/config/network"
	}
	switch p.receive {
	case config.ReceiveGRO, config.ReceiveFraglist:
		return "option receive '" + p.receive + "'"
	case config.ReceiveKeep:
		if own := s.own(p.link); own.GRO || own.GROHW || own.LRO {
			return "option receive 'keep' with " + own.String()
		}
	}
	if s.c.Main.Hook == config.HookAuto {
		return s.wantsGRO(p)
	}
	return ""
}

// fixedOn is the first of the merging features that the driver won't switch off.
func fixedOn(f state.Features) (string, bool) {
	for _, x := range []struct {
		name string
		f    state.Feature
	}{{"rx-gro", f.GRO}, {"rx-gro-list", f.GROList}, {"rx-gro-hw", f.GROHW}, {"rx-lro", f.LRO}} {
		if x.f.On && x.f.Fixed {
			return x.name, true
		}
	}
	return "", false
}
