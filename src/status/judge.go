// SPDX-License-Identifier: Apache-2.0

package status

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fastpath/src/state"
)

// answer of a match: some of what rules look at, conntrack doesn't tell.
type answer int

const (
	no answer = iota
	yes
	unknown
)

func certain(is bool) answer {
	if is {
		return yes
	}
	return no
}

// judged is what the rules make of a packet.
type judged struct {
	rule   *state.Rule  // that decides; nil: none does
	policy *state.Rule  // that let it pass by the other policies; nil: none did
	unsure []state.Rule // before these, of which nobody can tell whether they match
}

func (j judged) hands() bool { return j.rule != nil && j.rule.Verdict.Hands() }

// view is a packet of the connection as chain forward sees it: after DNAT and
// before SNAT, and a reply the other way round.
type view struct {
	c            *state.Connection
	direction    string
	src, dst     netip.Addr
	sport, dport uint16
	iif, oif     string
	inSet        func(set string, a netip.Addr) (bool, error)
}

// views are the packets that the originator sends, and those that come back.
func (c Case) views() [2]view {
	n := c.Connection
	src, _ := netip.ParseAddr(n.Orig.Src) // the kernel's, never wrong
	dst, _ := netip.ParseAddr(n.Reply.Src)
	there := view{n, "original", src, dst, n.Orig.SrcPort, n.Reply.SrcPort, n.InDevice, n.OutDevice, c.InSet}
	back := view{n, "reply", dst, src, n.Reply.SrcPort, n.Orig.SrcPort, n.OutDevice, n.InDevice, c.InSet}
	return [2]view{there, back}
}

// judge follows the rules for both directions: one that hands the flow on does
// it for both.
func (c Case) judge() judged {
	views := c.views()
	there, back := views[0].judge(c.Table), views[1].judge(c.Table)
	if !there.hands() && back.hands() || there.rule == nil {
		return back
	}
	return there
}

func (v view) judge(t *state.Table) (j judged) {
	for i := 0; i < len(t.Rules); i++ {
		r := &t.Rules[i]
		if r.Identity() == string(state.Count) || r.Verdict == state.Accelerate && r.All() {
			continue
		}
		switch v.matches(t, r) {
		case unknown:
			j.unsure = append(j.unsure, *r)
		case yes:
			if r.Verdict != state.Accelerate {
				j.rule = r
				return j
			}
			j.policy = r
			for i+1 < len(t.Rules) && !(t.Rules[i].Verdict == state.Accelerate && t.Rules[i].All()) {
				i++
			}
		}
	}
	return j
}

// matches: one match that surely doesn't fit is enough.
func (v view) matches(t *state.Table, r *state.Rule) answer {
	if r.Read != "" {
		return unknown
	}
	all := yes
	for _, m := range r.Matches {
		switch v.fits(t, m) {
		case no:
			return no
		case unknown:
			all = unknown
		}
	}
	return all
}

func (v view) fits(t *state.Table, m state.Match) answer {
	a := v.has(t, m)
	if m.Not && a != unknown {
		return certain(a == no)
	}
	return a
}

// has looks for one of the values.
func (v view) has(t *state.Table, m state.Match) answer {
	switch m.Key {
	case state.KeyL4Proto:
		return certain(slices.Contains(m.Values, v.c.Proto))
	case state.KeyFamily:
		return certain(slices.Contains(m.Values, v.c.Family))
	case state.KeyDirection:
		return certain(slices.Contains(m.Values, v.direction))
	case state.KeyHelper:
		return certain(v.c.Helper != "")
	case state.KeyIif:
		return device(t, v.iif, m)
	case state.KeyOif:
		return device(t, v.oif, m)
	case state.KeySaddr4:
		return v.address(v.src, m, "ipv4")
	case state.KeyDaddr4:
		return v.address(v.dst, m, "ipv4")
	case state.KeySaddr6:
		return v.address(v.src, m, "ipv6")
	case state.KeyDaddr6:
		return v.address(v.dst, m, "ipv6")
	case state.KeySport:
		return port(v.sport, m)
	case state.KeyDport:
		return port(v.dport, m)
	case state.KeyDSCP4: // of the packet: of another family it isn't for certain
		return v.family("ipv4")
	case state.KeyDSCP6:
		return v.family("ipv6")
	case state.KeyCtState, state.KeyCtMark, state.KeyPackets:
		return v.conntrack(m)
	}
	return unknown // meta mark, meta secpath, rt ipsec: of the packet, not of the connection
}

// conntrack is about the connection's own state, as its next packet will find it.
func (v view) conntrack(m state.Match) answer {
	if m.Key == state.KeyCtState {
		if m.Values[0] != "established" {
			return unknown
		}
		return certain(v.c.Status&state.StatusSeenReply != 0)
	}
	text, maskText, masked := strings.Cut(m.Values[0], "/")
	mask := uint64(1<<32 - 1)
	value, err := strconv.ParseUint(text, 0, 64)
	if err == nil && masked {
		mask, err = strconv.ParseUint(maskText, 0, 32)
	}
	switch {
	case err != nil:
		return unknown
	case m.Key == state.KeyCtMark:
		return certain(uint64(v.c.Mark)&mask == value)
	}
	return certain(!v.c.Counted || v.c.Orig.Packets+v.c.Reply.Packets+1 < value)
}

func (v view) family(f string) answer {
	if v.c.Family != f {
		return no
	}
	return unknown
}

// device compares a device; without a route it isn't known.
func device(t *state.Table, name string, m state.Match) answer {
	if name == "" {
		return unknown
	}
	set := m.Set()
	if set == "" {
		return certain(name == m.Values[0])
	}
	devices, ok := t.Engines[set]
	if zone, is := strings.CutPrefix(set, state.ZonePrefix); is {
		devices, ok = t.Zones[zone]
	}
	if !ok {
		return unknown
	}
	return certain(slices.Contains(devices, name))
}

func (v view) address(a netip.Addr, m state.Match, family string) answer {
	if v.c.Family != family {
		return no
	}
	if set := m.Set(); set != "" {
		if v.inSet == nil {
			return unknown
		}
		in, err := v.inSet(set, a)
		if err != nil {
			return unknown
		}
		return certain(in)
	}
	for _, text := range m.Values {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return unknown
		}
		if p.Contains(a) {
			return yes
		}
	}
	return no
}

func port(n uint16, m state.Match) answer {
	for _, text := range m.Values {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil {
			return unknown
		}
		if uint64(n) >= a && uint64(n) <= b {
			return yes
		}
	}
	return no
}
