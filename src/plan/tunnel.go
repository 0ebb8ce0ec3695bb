// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"fastpath/src/state"
)

// tunnelsFrom is the first kernel whose flowtable puts on and takes off the outer
// header of IPIP and of IPv6 over IPv6. IPv4 over IPv6 is refused by all that are
// released, flow by flow and without harm, so it is offered all the same: one that
// takes it says nothing of that either.
var tunnelsFrom = version{7, 2}

// outerHeader is how long the outer header of each kind is that a flowtable can carry.
var outerHeader = map[string]int{"ipip": 20, "ip6tnl": 40}

// carriesTunnels: the kernel's flowtable can carry tunnels of l's kind.
func carriesTunnels(l *state.Link, release string) bool {
	return outerHeader[l.Kind] > 0 && slices.Compare(tunnelsFrom, readVersion(release)) <= 0
}

// offerDSLite says what can't be known of IPv4 over IPv6 before a kernel is seen to
// do it.
func (s *survey) offerDSLite() {
	for _, st := range s.stacks {
		if l := s.t.byName[st.name]; l == nil || l.Kind != "ip6tnl" || l.Tunnel.Mode == "ip6ip6" || st.slow != "" || st.engine != "" {
			continue
		}
		s.notice("tunnel ", st.name, " carries IPv4 over IPv6, which the flowtable of no released kernel takes: "+
			"if this one doesn't either, these flows stay on the slow path")
	}
}

// noTunnel is why the flowtable can't carry the flows through l, "" if it can.
// What the kernel refuses silently, or would do wrong, is seen here first.
func (t *topology) noTunnel(l *state.Link) string {
	what := "a tunnel (" + l.Kind + "): "
	if !carriesTunnels(l, t.release) {
		if outerHeader[l.Kind] > 0 {
			return what + "this kernel's flowtable takes none, one direction of a flow would stay behind (" + takenFrom(l.Tunnel.Mode) + ")"
		}
		return unfit(l)
	}
	odd := l.Tunnel.Odd
	lower := t.byIndex[l.Tunnel.Lower]
	switch {
	case strings.HasPrefix(odd, "encaplimit"):
		return what + odd + " puts an option into each packet that no flowtable takes; set option encaplimit 'ignore' here and at the other end"
	case odd != "":
		return what + "'" + odd + "' is what no flowtable does"
	case t.session != "":
		return what + "over PPPoE a flowtable's packets would be lost, and its route may lead by " + t.session
	case lower == nil:
		return what + "there is no route to its other end (yet)"
	case l.Tunnel.Bound != 0 && l.Tunnel.Bound != lower.Index:
		return what + "it is bound to another device than " + lower.Name + ", by which the route to its other end leads"
	}
	return t.noTunnelOver(l, lower, what)
}

// takenFrom is which kernels take a tunnel of this mode.
func takenFrom(mode string) string {
	if mode == "ipip6" {
		return "no released kernel takes IPv4 over IPv6"
	}
	return fmt.Sprintf("kernels from %d.%d on take it", tunnelsFrom[0], tunnelsFrom[1])
}

// noTunnelOver is why the links below a tunnel can't carry it in a flowtable.
func (t *topology) noTunnelOver(l, lower *state.Link, what string) string {
	if most := lower.MTU - outerHeader[l.Kind]; l.MTU < most {
		return fmt.Sprintf("%sa flowtable doesn't look at its MTU of %d, packets of up to %d bytes would leave by it; set its MTU to %d", what, l.MTU, most, most)
	}
	for range maxEncaps {
		if below := t.byIndex[lower.Lower]; lower.Kind == "vlan" && below != nil {
			lower = below
		}
	}
	switch {
	case lower.Kind == "bridge":
		return what + "over a bridge (" + lower.Name + ") no flowtable finds the port"
	case isTunnel(lower):
		return what + "inside of another one (" + lower.Name + ")"
	}
	return ""
}

// uncarried are the tunnels that no flowtable carries.
func uncarried(o state.Observed) map[string]bool {
	if !slices.ContainsFunc(o.Links, func(l state.Link) bool { return isTunnel(&l) }) {
		return nil
	}
	t, names := newTopology(o, nil), map[string]bool{}
	for i := range o.Links {
		if l := &o.Links[i]; isTunnel(l) && t.noTunnel(l) != "" {
			names[l.Name] = true
		}
	}
	return names
}
