// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fastpath/src/config"
	"fastpath/src/state"
)

// validation is the rules that option source_validation asks for. What a lookup of
// the way back can't judge passes: the router's own packets to itself, senders
// that have no address yet (DHCP, IPv6's duplicate address detection) or one of
// the link only, and what goes to a group, whose senders, as of multicast TV, may
// be anywhere.
func (s *survey) validation() state.Validation {
	missing := state.IsNot(state.KeyWayBack)
	can, mode := s.o.FIB, s.c.Main.SourceValidation
	switch mode {
	case config.ValidationStrict:
	case config.ValidationLoose:
		missing, can = state.IsNot(state.KeyRoute), s.o.FIBLoose
	default:
		return state.Validation{}
	}
	if !can.OK {
		s.notice("source_validation '", mode, "' isn't possible, no source is checked: ", can.Reason)
		return state.Validation{}
	}
	deny := state.Deny.When(missing)
	deny.Counts = true
	forward := []state.Rule{
		state.Return.When(state.Is(state.KeyDaddr4, "224.0.0.0/4")),
		state.Return.When(state.Is(state.KeyDaddr6, "ff00::/8")),
		deny,
	}
	input := append([]state.Rule{
		state.Return.When(state.Is(state.KeyIif, "lo")),
		state.Return.When(state.Is(state.KeySaddr4, "0.0.0.0/32")),
		state.Return.When(state.Is(state.KeySaddr6, "::/128", "fe80::/10")),
	}, forward...)
	return state.Validation{Input: input, Forward: forward}
}
