// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"fastpath/src/state"
)

// refuse is why a port can't have the engine that it is asked to have, as far
// as can be seen without trying; then what trying showed.
func (s *survey) refuse(p *port) string {
	l, want := p.link, p.engine
	if why := virtual(l); why != "" && !want.Force {
		return why + "; option force '1' allows it"
	}
	if why := genericOnly(l); why != "" && !want.Generic {
		return why + " has XDP in generic mode only (option xdp_mode 'generic')"
	}
	if why := s.shaped(p, byEngine); why != "" && !want.Force {
		return why + "; option force '1' allows it"
	}
	if s.foreignXDP(l) {
		return fmt.Sprintf("XDP program %d is attached, and it isn't ours", l.XDP)
	}
	if why := s.fixedAgainst(l); why != "" {
		return why
	}
	if r, ok := s.o.Refused[l.Name]; ok && r.Want == want {
		return r.Reason
	}
	return ""
}

// foreignXDP: somebody else's program is on the link. A link has one at most.
func (s *survey) foreignXDP(l *state.Link) bool {
	_, ours := s.o.Engines[l.Name]
	return l.XDP != 0 && !ours
}

// virtual is why a link isn't one that an engine is for, "" if it is: packets
// from a virtual device may lack their checksum, and have cost more than an
// engine saves when it gets them.
func virtual(l *state.Link) string {
	switch {
	case l.Kind != "" && l.Kind != "dsa":
		return "a virtual device (" + l.Kind + ")"
	case !l.Bus:
		return "a virtual device: no hardware stands behind it"
	}
	return ""
}

// genericOnly names a link whose driver never sees an XDP program.
func genericOnly(l *state.Link) string {
	switch {
	case isDSA(l):
		return "a DSA port"
	case l.DevType == "wlan":
		return "Wi-Fi"
	}
	return ""
}

// fixedAgainst is the feature that an engine needs off and the driver holds on.
// A tag that the hardware takes off matters where there is a VLAN.
func (s *survey) fixedAgainst(l *state.Link) string {
	f := l.Feature
	switch {
	case f.LRO.On && f.LRO.Fixed:
		return "rx-lro can't be switched off (fixed)"
	case f.GROHW.On && f.GROHW.Fixed:
		return "rx-gro-hw can't be switched off (fixed)"
	case f.RxVLAN.On && f.RxVLAN.Fixed && slices.ContainsFunc(s.t.above(l), isVLAN):
		return "rx-vlan-hw-parse can't be switched off (fixed), and an engine would not see the VLAN"
	}
	return ""
}

func isVLAN(l *state.Link) bool { return l.Kind == "vlan" }
