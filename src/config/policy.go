// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"slices"
	"strings"
)

// readPolicy reads a policy section. With a fault in it a bypass stays with what
// could be read, and so matches more than its owner wrote; an accelerate that
// matches more would be wrong, so it is left out.
func (c *Config) readPolicy(s *section, name string) {
	before := len(s.problems)
	p := Policy{
		Pos:      s.pos(""),
		Name:     name,
		Action:   s.choice("action", Bypass, "", Accelerate, Bypass),
		Src:      c.policyZones(s, "src"),
		Dest:     c.policyZones(s, "dest"),
		Proto:    parseAll(s, "proto", "tcp or udp; only those are accelerated", parseProto),
		Family:   s.choice("family", "", "", "ipv4", "ipv6"),
		SrcIP:    parseAll(s, "src_ip", "an address or a prefix", parsePrefix),
		DestIP:   parseAll(s, "dest_ip", "an address or a prefix", parsePrefix),
		SrcPort:  parseAll(s, "src_port", "a port (1 to 65535) or a range FIRST-LAST", parsePorts),
		DestPort: parseAll(s, "dest_port", "a port (1 to 65535) or a range FIRST-LAST", parsePorts),
		DSCP:     parseAll(s, "dscp", "a code point (0 to 63, or a name like cs1, af41, ef)", parseDSCP),
	}
	if v, ok := s.text("mark"); ok {
		if p.Mark, ok = parseMark(v); !ok {
			s.problem(s.pos("mark"), "mark '%s' is not VALUE or VALUE/MASK with the value inside the mask", v)
		}
	}
	if v, ok := s.text("set"); ok {
		p.Set = v
		if why := c.setFault(p); why != "" {
			s.problem(s.pos("set"), "set '%s' %s", v, why)
			p.Set = ""
		}
	}
	s.rest()
	if !s.has("action") {
		s.problem(p.Pos, "policy '%s' has no action; it can be accelerate or bypass", name)
		p.Action = Bypass
	}
	p.check(s)
	if p.Action == Bypass || len(s.problems) == before {
		c.Policies = append(c.Policies, p)
	}
}

// parseAll parses each value of a list option, or says that it is not what it should be.
func parseAll[T any](s *section, option, what string, parse func(string) (T, bool)) (all []T) {
	for _, v := range s.texts(option) {
		one, ok := parse(v.Text)
		if !ok {
			s.problem(s.at(v), "%s '%s' is not %s", option, v.Text, what)
			continue
		}
		all = append(all, one)
	}
	return all
}

func parseProto(v string) (proto string, ok bool) { return v, v == "tcp" || v == "udp" }

func (c *Config) policyZones(s *section, option string) (names []string) {
	for _, v := range s.texts(option) {
		switch {
		case !c.Firewall.Present:
			s.problem(s.at(v), "zone '%s' is unknown, as there is no file firewall", v.Text)
		case !slices.ContainsFunc(c.Zones, func(z Zone) bool { return z.Name == v.Text }):
			s.problem(s.at(v), "zone '%s' is unknown; the file firewall has %s", v.Text, c.zoneNames())
		default:
			names = append(names, v.Text)
		}
	}
	return names
}

func (c *Config) zoneNames() string {
	var names []string
	for _, z := range c.Zones {
		names = append(names, z.Name)
	}
	return list(names)
}

// check finds conditions that can't be met together.
func (p *Policy) check(s *section) {
	for _, option := range []string{"src_port", "dest_port"} {
		if s.has(option) && !s.has("proto") {
			s.problem(s.pos(option), "%s needs proto tcp or udp", option)
		}
	}
	p.checkFamily(s, "src_ip", p.SrcIP)
	p.checkFamily(s, "dest_ip", p.DestIP)
	if len(p.SrcIP) == 0 || len(p.DestIP) == 0 {
		return
	}
	for _, a := range p.SrcIP {
		if slices.ContainsFunc(p.DestIP, func(b netip.Prefix) bool { return family(a) == family(b) }) {
			return
		}
	}
	s.problem(s.pos("dest_ip"), "src_ip and dest_ip have no address family in common")
}

func (p *Policy) checkFamily(s *section, option string, prefixes []netip.Prefix) {
	for _, a := range prefixes {
		if p.Family != "" && family(a) != p.Family {
			s.problem(s.pos(option), "%s %s is not %s, the policy's family", option, a, p.Family)
		}
	}
}

// setFault says why p can't have the set that it names, "" if it can.
func (c *Config) setFault(p Policy) string {
	switch {
	case !isSetName(p.SetName("ipv6")):
		return "is no name of a set"
	case p.Set == "xdp" || p.Set == "afxdp" || strings.HasPrefix(p.Set, "zone-"):
		return "has a name that fastpath uses itself"
	}
	for _, other := range c.Policies {
		for _, family := range other.SetFamilies() {
			for _, mine := range p.SetFamilies() {
				if other.SetName(family) == p.SetName(mine) && family != mine {
					return "would be " + mine + " here, but policy '" + other.Name + "' makes it " + family +
						"; one without a family has a set for IPv4, and one with a 6 at its end for IPv6"
				}
			}
		}
	}
	return ""
}

// SetFamilies are those that the policy has sets of.
func (p Policy) SetFamilies() []string {
	switch {
	case p.Set == "":
		return nil
	case p.Family != "":
		return []string{p.Family}
	}
	return []string{"ipv4", "ipv6"}
}

// SetName is the name of the policy's set of addresses of a family: a policy for
// both has two, whose names differ by a 6.
func (p Policy) SetName(family string) string {
	if p.Family == "" && family == "ipv6" {
		return p.Set + "6"
	}
	return p.Set
}

func family(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ipv4"
	}
	return "ipv6"
}

// checkOrder says which policy hides the ones after it.
func (f *findings) checkOrder(policies []Policy) {
	for i, p := range policies {
		if i < len(policies)-1 && p.matchesAll() {
			f.notice(p.Pos, "policy '%s' matches everything, so the policies after it have no effect", p.Name)
			return
		}
	}
}

func (p *Policy) matchesAll() bool {
	conditions := len(p.Src) + len(p.Dest) + len(p.Proto) + len(p.Family) + len(p.SrcIP) + len(p.DestIP) +
		len(p.SrcPort) + len(p.DestPort) + len(p.DSCP) + len(p.Set)
	return conditions == 0 && !p.Mark.Set
}
