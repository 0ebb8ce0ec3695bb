// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"

	"fastpath/src/uci"
)

// What fw4's rules with target DSCP or MARK do to a packet doesn't happen to
// packets that pass its chains by: what they match stays on the slow path. fw4's
// own reading of a rule is fw4.uc, parse_rule.

// anyZone is fw4's word for every zone, and for devices in none.
const anyZone = "*"

// qosRules are the bypass policies that leave to the slow path what fw4's DSCP
// and MARK rules match. A rule looks at single packets, a policy at the
// originator's direction of a connection: so each rule becomes two.
func (c *Config) qosRules(p *uci.Package) {
	natted := natted(p)
	for _, s := range p.Sections {
		if s.Type != "rule" || !isOn(s, "enabled", true) || !marks(s) {
			continue
		}
		policy, ok := c.qosRule(s)
		if !ok {
			continue
		}
		policy.Pos = Pos{p.File, s.Line}
		back := mirrored(policy)
		// Such a rule stands before DNAT, and a policy's destination is the one after it.
		if lastText(s, "dest") == anyZone && natted[lastText(s, "src")] {
			policy.DestIP, policy.DestPort = nil, nil
		}
		c.QoSRules = append(c.QoSRules, policy)
		if back.narrower() {
			c.QoSRules = append(c.QoSRules, back)
		}
	}
}

// marks: the rule's target is DSCP or MARK and has what it needs. fw4 takes the
// beginning of a word for the first target that begins so; "d" is drop.
func marks(s *uci.Section) bool {
	target := strings.ToLower(lastText(s, "target"))
	switch {
	case target == "":
		return false
	case strings.HasPrefix("mark", target):
		return lastText(s, "set_mark") != "" || lastText(s, "set_xmark") != ""
	case target != "d" && strings.HasPrefix("dscp", target):
		return lastText(s, "set_dscp") != ""
	}
	return false
}

// natted are the zones from which a redirect section sends connections to
// another address or port.
func natted(p *uci.Package) map[string]bool {
	zones := map[string]bool{}
	for _, s := range p.Sections {
		if target := strings.ToLower(lastText(s, "target")); s.Type == "redirect" && isOn(s, "enabled", true) && target != "snat" {
			zones[lastText(s, "src")] = true
		}
	}
	return zones
}

// qosRule is the policy for the direction of the packets that the rule matches.
// Of what a policy can't express (MACs, sets, times, limits, what is negated)
// nothing is left, and it matches more. So it is with dscp and mark: the rule may
// have changed them by the time the policy looks, and answers don't bear them.
// ok is false for a rule that no forwarded TCP or UDP packet meets: without src
// it is about what the router sends itself, without dest about what it receives.
func (c *Config) qosRule(s *uci.Section) (p Policy, ok bool) {
	src, dest := lastText(s, "src"), lastText(s, "dest")
	if src == "" || dest == "" || !c.isZone(src) || !c.isZone(dest) {
		return p, false
	}
	p = Policy{
		Name:   "fw4 rule " + lastTextOr(s, "name", s.Name),
		Action: Bypass,
		Src:    zoneList(src), Dest: zoneList(dest),
		Family: fw4Family(lastText(s, "family")),
		SrcIP:  wider(s, "src_ip", parsePrefix),
		DestIP: wider(s, "dest_ip", parsePrefix),
	}
	if lastText(s, "device") != "" { // in place of a zone's devices
		if out := lastText(s, "direction"); out == "out" || out == "egress" {
			p.Dest = nil
		} else {
			p.Src = nil
		}
	}
	if p.Proto, ok = fw4Protos(s); len(p.Proto) > 0 {
		p.SrcPort, p.DestPort = wider(s, "src_port", fw4Ports), wider(s, "dest_port", fw4Ports)
	}
	return p, ok
}

func (c *Config) isZone(name string) bool {
	return name == anyZone || slices.ContainsFunc(c.Zones, func(z Zone) bool { return z.Name == name })
}

func zoneList(zone string) []string {
	if zone == anyZone {
		return nil
	}
	return []string{zone}
}

// fw4Family is what fw4 makes of the words for a family.
func fw4Family(v string) string {
	switch {
	case v == "inet" || strings.Contains(v, "4"):
		return "ipv4"
	case strings.Contains(v, "6"):
		return "ipv6"
	}
	return ""
}

// fw4Protos are those of tcp and udp that the rule is about; none with ok is
// every protocol. A negated one counts as every.
func fw4Protos(s *uci.Section) (protos []string, ok bool) {
	written := allTexts(s, "proto")
	if len(written) == 0 {
		written = []string{"tcpudp"}
	}
	for _, v := range written {
		switch v = strings.ToLower(v); {
		case v == "all" || v == "any" || v == anyZone || strings.HasPrefix(v, "!"):
			return nil, true
		case v == "tcpudp":
			protos = append(protos, "tcp", "udp")
		case v == "tcp" || v == "6":
			protos = append(protos, "tcp")
		case v == "udp" || v == "17":
			protos = append(protos, "udp")
		}
	}
	slices.Sort(protos)
	return slices.Compact(protos), len(protos) > 0
}

// fw4Ports reads a port or a range, which fw4 takes with a colon too.
func fw4Ports(v string) (PortRange, bool) { return parsePorts(strings.Replace(v, ":", "-", 1)) }

// wider reads a list that matches if any of its values does: one that can't be
// read (a range, the name of a network) makes all of it match everything, one
// that is negated only takes away from the others.
func wider[T any](s *uci.Section, option string, parse func(string) (T, bool)) (all []T) {
	for _, v := range allTexts(s, option) {
		if strings.HasPrefix(v, "!") {
			continue
		}
		one, ok := parse(v)
		if !ok {
			return nil
		}
		all = append(all, one)
	}
	return all
}

// mirrored is p for connections whose answers run in p's direction.
func mirrored(p Policy) Policy {
	p.Src, p.Dest = p.Dest, p.Src
	p.SrcIP, p.DestIP = p.DestIP, p.SrcIP
	p.SrcPort, p.DestPort = p.DestPort, p.SrcPort
	return p
}

// narrower: p looks at one end only or at both, so that its mirror image differs.
func (p *Policy) narrower() bool {
	return len(p.Src)+len(p.Dest)+len(p.SrcIP)+len(p.DestIP)+len(p.SrcPort)+len(p.DestPort) > 0
}

func lastTextOr(s *uci.Section, option, otherwise string) string {
	if v := lastText(s, option); v != "" {
		return v
	}
	return otherwise
}
