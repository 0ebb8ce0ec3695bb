// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fastpath/src/state"
)

// A faster path leaves the kernel's ordinary one early and joins it late: what
// tc does between the two doesn't happen to its packets. Where that would be a
// limit that the router's owner set, the flows get the best path that keeps it.

// way is how a flow's packets pass the router.
type way int

const (
	bySlowPath way = iota
	byIngress      // a flowtable at netdev ingress
	byEarly        // a flowtable at early_ingress
	byEngine       // XDP or AF_XDP
	ways
)

func (w way) String() string {
	return [ways]string{"the slow path", "a flowtable", "early_ingress", "an engine"}[w]
}

// place is where tc gets hold of a packet.
type place int

const (
	egressPort   place = iota // qdisc of the port that sends, which is never passed by unqueued
	egressDirect              // the same, one that may be (state.Qdisc.Direct)
	egressUpper               // qdisc of a VLAN or PPPoE device above the port
	egressBridge              // qdisc of the bridge above it
	ingressPort               // tc ingress of the port that receives: a redirection to an ifb, a policer
	ingressUpper              // tc ingress of a VLAN, PPPoE device or bridge above it
	places
)

// treatment is what becomes of a packet there.
type treatment int

const (
	bypassed treatment = iota
	inBulk             // one handing over for many packets; an empty queue doesn't see them
	singly             // packet by packet, although they came in bulk
	honoured
)

// The matrix, by the kernel's way to write VLAN and PPPoE headers: up to 6.18 the
// flowtable hands a packet to the upper device, which does it; from 6.19 on it
// does so itself and hands the packet to the port. The guest tests TestQoS and
// TestEngineQoS (src/itest/control) show it with each qdisc's counters on 6.1, 6.12
// and 7.3. No kernel before 6.19 with early_ingress is known: what the first half
// says of it is what can't do harm.
var matrix = [2][places][ways]treatment{
	{
		egressPort:   {honoured, honoured, singly, bypassed},
		egressDirect: {honoured, honoured, inBulk, bypassed},
		egressUpper:  {honoured, honoured, bypassed, bypassed},
		egressBridge: {honoured, bypassed, bypassed, bypassed},
		ingressPort:  {honoured, honoured, bypassed, bypassed},
		ingressUpper: {honoured, bypassed, bypassed, bypassed},
	},
	{
		egressPort:   {honoured, honoured, singly, bypassed},
		egressDirect: {honoured, honoured, inBulk, bypassed},
		egressUpper:  {honoured, bypassed, bypassed, bypassed},
		egressBridge: {honoured, bypassed, bypassed, bypassed},
		ingressPort:  {honoured, honoured, bypassed, bypassed},
		ingressUpper: {honoured, bypassed, bypassed, bypassed},
	},
}

// treats is the matrix' cell for a kernel.
func treats(release string, at place, via way) treatment {
	if inline(release) {
		return matrix[1][at][via]
	}
	return matrix[0][at][via]
}

// inline: the kernel's flowtable writes VLAN and PPPoE headers itself (6.19). A
// release that can't be read is taken for a new one, which passes more by.
func inline(release string) bool {
	first, rest, _ := strings.Cut(release, ".")
	digits := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if digits >= 0 {
		rest = rest[:digits]
	}
	major, err := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(rest)
	return err != nil || err2 != nil || major > 6 || major == 6 && minor >= 19
}

// limit is one thing that tc does because the router's owner said so.
type limit struct {
	at  place
	who string // "cake on wan (sqm-scripts) limits what it sends"
	ifb bool   // what it sees goes on by the slow path
}

// limits are those on one link of a path; it is the port, or one above it.
func (s *survey) limits(l *state.Link, isPort bool) (found []limit) {
	out, in := egressUpper, ingressUpper
	switch {
	case isPort && l.Qdisc.Direct:
		out, in = egressDirect, ingressPort
	case isPort:
		out, in = egressPort, ingressPort
	case l.Kind == "bridge":
		out = egressBridge
	}
	q := l.Qdisc
	if q.Shaper != "" {
		found = append(found, limit{at: out, who: fmt.Sprintf("%s on %s%s limits what it sends", q.Shaper, l.Name, s.service(l))})
	}
	if ifb := s.t.byIndex[q.Redirect]; ifb != nil && ifb.Qdisc.Shaper != "" {
		found = append(found, limit{in, fmt.Sprintf("%s on %s%s limits what %s receives", ifb.Qdisc.Shaper, ifb.Name, s.service(l), l.Name), true})
	}
	if q.Police {
		found = append(found, limit{at: in, who: "a policer at tc ingress limits what " + l.Name + " receives"})
	}
	if q.Classify && (s.service(l) != "" || !slices.Contains(s.o.Accelerators, state.Bridger)) { // bridger's takes what no flowtable does
		found = append(found, limit{at: in, who: fmt.Sprintf("a BPF program at tc ingress%s classifies what %s receives", s.service(l), l.Name)})
	}
	return found
}

// service is who shapes l, as far as it can be told: by its configuration, or by
// the name that it gives to its ifb.
func (s *survey) service(l *state.Link) string {
	who := ""
	for _, q := range s.c.Shapers {
		if q.Device == l.Name || q.Network != "" && s.names.l3(q.Network) == l.Name {
			who = q.Service
			break
		}
	}
	if ifb := s.t.byIndex[l.Qdisc.Redirect]; ifb != nil && who == "" {
		switch {
		case strings.HasPrefix(ifb.Name, "ifb4"):
			who = "sqm-scripts"
		case strings.HasPrefix(ifb.Name, "ifb-") && l.Qdisc.Classify:
			who = "qosify"
		case strings.HasPrefix(ifb.Name, "ifb-"):
			who = "qosmate"
		}
	}
	if who == "" {
		return ""
	}
	return " (" + who + ")"
}

// passes is the sentence for the first of the limits that a way passes by, "" if
// it keeps all.
func (s *survey) passes(limits []limit, via way) string {
	for _, x := range limits {
		if treats(s.o.Release, x.at, via) == bypassed {
			return fmt.Sprintf("%s, and %v would pass it by", x.who, via)
		}
	}
	return ""
}

// shaped is why p itself, whatever stands above it, can't go that way.
func (s *survey) shaped(p *port, via way) (why string) {
	return s.passes(s.limits(p.link, true), via)
}

// shapedAbove is why the flows of st can't go that way: for what is on its links
// above the ports.
func (s *survey) shapedAbove(st *stack, via way) (why string) { return s.passes(st.limits, via) }

// shapedTunnel is why an engine of the ports below a tunnel doesn't take its
// flows; below is nil where the kernel doesn't tell it.
func (s *survey) shapedTunnel(tunnel *state.Link, below *stack) (why string) {
	why = s.passes(s.limits(tunnel, false), byEngine)
	if below == nil {
		return why
	}
	if s.forced(below) {
		return ""
	}
	return cmp.Or(why, s.passes(s.limitsAbove(below), byEngine))
}

// forcedPast is what p's engine passes by because option force says so.
func (s *survey) forcedPast(p *port) (why string) {
	why = s.shaped(p, byEngine)
	for _, st := range p.stacks {
		if st.engine != "" {
			why = cmp.Or(why, s.shapedAbove(st, byEngine))
		}
	}
	return why
}

// excludeShaped keeps the flows of those l3 devices on the slow path whose
// limits every flowtable would pass by.
func (s *survey) excludeShaped() {
	for _, st := range s.stacks {
		st.limits = s.limitsAbove(st)
		if _, out := s.excluded[st.name]; out || st.why != "" {
			continue
		}
		if why := s.shapedAbove(st, byIngress); why != "" {
			s.excluded[st.name], st.shaped = why, true
		}
	}
}

// noteShaped says it of flows whose port has others that are accelerated: that
// port's own lines don't.
func (s *survey) noteShaped() {
	for _, st := range s.stacks {
		if st.shaped && st.engine == "" && slices.ContainsFunc(st.ends, func(e end) bool { return s.byLink[e.link.Index].carries }) {
			s.notice("the flows of ", st.name, " stay on the slow path: ", st.slow)
		}
	}
}

// kept names the limits on p, and above it, that its way keeps. A packet that
// comes back from an ifb enters behind netdev ingress (net/core/dev.c,
// __netif_receive_skb_core), where no flowtable takes it any more.
func (s *survey) kept(p *port, h hook) string {
	via := byIngress
	if h.hook == state.HookEarly {
		via = byEarly
	}
	var kept []string
	for _, x := range s.limitsAt(p) {
		switch how := treats(s.o.Release, x.at, via); {
		case how == singly:
			kept = append(kept, x.who+" (packet by packet)")
		case how == honoured && x.ifb:
			kept = append(kept, x.who+" (by the slow path)")
		case how == honoured:
			kept = append(kept, x.who)
		}
	}
	if kept == nil {
		return ""
	}
	return "; kept: " + list(kept)
}

// limitsAt are those of p and of the links above it whose flows it carries.
func (s *survey) limitsAt(p *port) []limit {
	all := s.limits(p.link, true)
	for _, st := range p.stacks {
		if st.slow == "" {
			all = append(all, st.limits...)
		}
	}
	return all
}

// limitsAbove are those on the links of st above its ports.
func (s *survey) limitsAbove(st *stack) (all []limit) {
	seen := map[string]bool{}
	for _, e := range st.ends {
		for _, name := range e.path[:len(e.path)-1] {
			if l := s.t.byName[name]; l != nil && !seen[name] {
				seen[name] = true
				all = append(all, s.limits(l, false)...)
			}
		}
	}
	return all
}
