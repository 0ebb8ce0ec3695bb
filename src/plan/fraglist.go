// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	"fastpath/src/state"
)

// denyFraglist settles on which ports fraglist GRO must not be, and why.
func (s *survey) denyFraglist() {
	kernel, all := readVersion(s.o.Release), s.limitsOut()
	for _, p := range s.ports {
		p.denied = cmp.Or(s.listed(p.link, kernel), s.deniedHere(p), all)
	}
}

const splits = ", and would have to split what fraglist GRO joins (https://github.com/openwrt/openwrt/issues/18901)"

// limitsOut is the first limit on what any port sends: it gets what the others
// have received, and joined. "" if there is none.
func (s *survey) limitsOut() string {
	for _, p := range s.ports {
		for _, l := range s.t.above(p.link) {
			for _, x := range s.limits(l, l == p.link) {
				if x.at < ingressPort {
					return x.who + splits
				}
			}
		}
	}
	return ""
}

// deniedHere is what stands above p that can't bear its lists, "" if nothing does.
func (s *survey) deniedHere(p *port) string {
	for _, l := range s.t.above(p.link) {
		if why := s.o.Multicast[l.Name]; why != "" {
			return "multicast TV on " + l.Name + " (" + why + ") stutters with fraglist GRO (https://github.com/openwrt/openwrt/issues/18214)"
		}
		for _, x := range s.limits(l, l == p.link) {
			if x.at >= ingressPort {
				return x.who + splits
			}
		}
	}
	if !p.link.Feature.UDPForward.On {
		return ""
	}
	if tunnel := s.tunnelOver(p); tunnel != "" {
		return "tunnel " + tunnel + " can't split what fraglist GRO and rx-udp-gro-forwarding join (https://github.com/tailscale/tailscale/issues/11026)"
	}
	return ""
}

// listed is the first entry of the deny-list that fits a link.
func (s *survey) listed(l *state.Link, kernel version) string {
	for _, d := range denyList() {
		if !d.covers(kernel, l.Driver) || d.when == denyNAT64 && len(s.o.Translators) == 0 || d.when == denyNAT66 && !s.nat66() {
			continue
		}
		where := "kernel " + s.o.Release
		if d.drivers != nil {
			where = "driver " + l.Driver + ", " + where
		}
		return fmt.Sprintf("fraglist GRO harms here: %s (%s; %s)", d.reason, where, d.issue)
	}
	return ""
}

// nat66: a zone of the firewall masquerades IPv6.
func (s *survey) nat66() bool {
	for _, z := range s.c.Zones {
		if z.Masq6 {
			return true
		}
	}
	return false
}

// tunnelOver is a tunnel whose packets may come in by p: where the kernel
// doesn't tell what is below it, its route decides.
func (s *survey) tunnelOver(p *port) string {
	above := s.t.above(p.link)
	for i := range s.o.Links {
		l := &s.o.Links[i]
		if l.Kind != "vxlan" && l.Kind != "geneve" && !isTunnel(l) {
			continue
		}
		if lower := s.t.byIndex[l.Lower]; lower == nil || slices.Contains(above, lower) {
			return l.Name
		}
	}
	return ""
}
