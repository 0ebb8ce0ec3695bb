// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"fastpath/src/state"
)

// Several ways out: mwan3, pbr, or two lines with different metrics.
//
// A flow keeps two routes. That of the packet that puts it into the flowtable is
// the packet's own, whatever rules and marks made it. The other one, the way
// back, the kernel looks up by itself (nft_flow_route() in
// net/netfilter/nft_flow_offload.c), as for a packet of the router's own, with
// the first packet's mark and bound to leave by the device where that packet
// came in. If the routing tables don't lead there it makes up a route to a host on
// the link, and the flow is a black hole. So a way back is verified thus:
//
//   - Only packets that come in by a device without a default route put a flow
//     into the flowtable: the way of which policies decide is then their own.
//   - The kernel, asked by a rule for their way back, with their mark and with
//     none, must name the device by which they came (KeyWayBack).
//   - Rules for packets that come in by a line must lead answers to the LAN: this
//     is asked for each network of the router (Routing.Astray).
//   - No rule may look at what differs between the packets of one connection, or
//     between an answer and what the kernel asks (RoutingRule.Strange).
//
// That a connection's packets keep their mark is what such programs are for:
// they save it in the connection, or derive it from what doesn't change.

func (s *survey) lateNetifd() {
	if s.o.NetifdLate {
		s.notice("netifd doesn't answer (ubus call network.interface dump): what it said last counts until it does")
	}
}

// uplinks are the devices with default routes of the families, sorted.
func uplinks(o state.Observed, family func(netip.Addr) bool) (devices []string) {
	for _, d := range o.Routing.Defaults {
		if family(d.From.Addr()) {
			devices = append(devices, d.Device)
		}
	}
	slices.Sort(devices)
	return slices.Compact(devices)
}

func anyFamily(netip.Addr) bool { return true }

// severalWays: where a packet leaves depends on more than its family and its destination.
func severalWays(o state.Observed) bool {
	return len(o.Routing.Rules) > 0 || len(uplinks(o, netip.Addr.Is4)) > 1 || len(uplinks(o, netip.Addr.Is6)) > 1
}

// unverifiable is why the way back of no flow can be verified, "" if that can be
// left to the rules.
func unverifiable(o state.Observed) string {
	for _, r := range o.Routing.Rules {
		switch {
		case r.Strange != "":
			return fmt.Sprintf("the routing rule %q looks at %s, and the way back of a flow can't be verified then", r.Text, r.Strange)
		case r.Oif != "" && !slices.Contains(uplinks(o, anyFamily), r.Oif):
			return fmt.Sprintf("the routing rule %q leads answers bound to %s elsewhere than forwarded ones", r.Text, r.Oif)
		}
	}
	switch {
	case len(o.Routing.Astray) > 0:
		return "policy routing leads answers astray: " + o.Routing.Astray[0]
	case severalWays(o) && !o.FIB.OK:
		return "there are several ways out, and the way back of a flow can't be verified: " + o.FIB.Reason
	}
	return ""
}

// marks are the bits of marks that routing rules look at, and nobody of ours.
func (s *survey) marks() (mask uint32) {
	for _, r := range s.o.Routing.Rules {
		mask |= r.Mask
	}
	return mask &^ s.c.Main.CTMark
}

// foreignMarks leave alone what carries a mark that no routing rule explains:
// whoever made it wants something of the packets that nobody knows.
func (s *survey) foreignMarks() []state.Rule {
	none := "0"
	if mask := s.marks(); mask != 0 {
		none = fmt.Sprintf("0/0x%08x", ^mask)
	}
	return []state.Rule{
		state.Return.When(state.IsNot(state.KeyMark, none)),
		state.Return.When(state.IsNot(state.KeyCtMark, fmt.Sprintf("0/0x%08x", ^(s.marks()|s.c.Main.CTMark)))),
	}
}

// unmarked is what engines demand besides: they don't see the marks of packets,
// by which their ways would have to be looked up.
func (s *survey) unmarked() []state.Match {
	mask := s.marks()
	if mask == 0 {
		return nil
	}
	return []state.Match{state.Is(state.KeyMark, fmt.Sprintf("0/0x%08x", mask))}
}

// wayBack lets only those packets add flows whose way back is verified.
func (s *survey) wayBack() (rules []state.Rule) {
	if !severalWays(s.o) {
		return nil
	}
	for _, device := range uplinks(s.o, anyFamily) {
		if s.excluded[device] == "" {
			rules = append(rules, state.Return.When(state.Is(state.KeyIif, device)))
		}
	}
	rules = append(rules, state.Return.When(state.IsNot(state.KeyWayBack)))
	if s.marks() != 0 {
		rules = append(rules, state.Return.When(state.IsNot(state.KeyWayBackMarked)))
	}
	return rules
}
