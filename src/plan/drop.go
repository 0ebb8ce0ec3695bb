// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"hash/fnv"
	"slices"

	"fastpath/src/config"
	"fastpath/src/state"
)

// drop is what is dropped by source: on every port, at netdev ingress, before a
// flowtable there. One at early_ingress comes first.
func (s *survey) drop(h hook) *state.Drop {
	sets := dropSets(s.c.Sources)
	s.notices = append(s.notices, s.c.DropProblems...)
	if len(sets) == 0 || len(s.ports) == 0 {
		return nil
	}
	if h.hook == state.HookEarly {
		s.notice("connections that the flowtable at early_ingress carries already aren't dropped by source; new ones are")
	}
	d := &state.Drop{Sets: sets, Chains: map[string]state.DropChain{}}
	for _, p := range s.ports {
		d.Chains[p.link.Name] = state.DropChain{Number: state.NumberIngress, Forms: s.forms(p)}
	}
	return d
}

// dropSets are the sets of ranges, with a hash of them in their names.
func dropSets(sources config.Sources) (sets []state.DropSet) {
	if len(sources.V4) > 0 {
		h := fnv.New64a()
		for i := range sources.V4 {
			h.Write(sources.V4[i][0][:])
			h.Write(sources.V4[i][1][:])
		}
		sets = append(sets, state.DropSet{Name: fmt.Sprintf("v4-%016x", h.Sum64()), Family: "ipv4", V4: sources.V4})
	}
	if len(sources.V6) > 0 {
		h := fnv.New64a()
		for i := range sources.V6 {
			h.Write(sources.V6[i][0][:])
			h.Write(sources.V6[i][1][:])
		}
		sets = append(sets, state.DropSet{Name: fmt.Sprintf("v6-%016x", h.Sum64()), Family: "ipv6", V6: sources.V6})
	}
	return sets
}

// forms are the ways in which IP may lie in a port's frames: bare, and as the
// stacks above the port have it. The kernel has taken the outermost tag off
// (skb_vlan_untag, net/core/dev.c).
func (s *survey) forms(p *port) []state.DropForm {
	forms := []state.DropForm{{}}
	add := func(f state.DropForm) {
		if !slices.ContainsFunc(forms, func(g state.DropForm) bool { return f.PPPoE == g.PPPoE && slices.Equal(f.Tags, g.Tags) }) {
			forms = append(forms, f)
		}
	}
	for _, st := range p.stacks {
		for _, e := range st.ends {
			if e.link != p.link {
				continue
			}
			f := s.form(e)
			f.Tags = f.Tags[min(len(f.Tags), 1):]
			add(f)
		}
	}
	return forms
}

// form is what a stack has on the wire around IP.
func (s *survey) form(e end) (f state.DropForm) {
	for _, name := range slices.Backward(e.path) {
		link := s.t.byName[name]
		switch {
		case s.isPPP(name):
			f.PPPoE = true
		case link != nil && link.Kind == "vlan" && link.QinQ:
			f.Tags = append(f.Tags, state.TypeQinQ)
		case link != nil && link.Kind == "vlan":
			f.Tags = append(f.Tags, state.TypeVLAN)
		}
	}
	return f
}
