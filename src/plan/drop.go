// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"hash/fnv"
	"slices"

	"fastpath/src/config"
	"fastpath/src/state"
)

// drop is what is dropped by source: on every port at netdev ingress, and where the
// flowtable is at early_ingress, there as well. Both come before the flowtable; what
// a driver doesn't hand over in lists passes netdev ingress only.
func (s *survey) drop(h hook) *state.Drop {
	sets := dropSets(s.c.Sources)
	s.notices = append(s.notices, s.c.DropProblems...)
	if len(sets) == 0 || len(s.ports) == 0 {
		return nil
	}
	d := &state.Drop{Sets: sets}
	for _, p := range s.ports {
		whole := s.forms(p)
		untagged := untag(whole)
		d.Chains = append(d.Chains, state.DropChain{Port: p.link.Name, Number: state.NumberIngress, Forms: untagged})
		if h.hook == state.HookEarly && p.carries {
			d.Chains = append(d.Chains, state.DropChain{Port: p.link.Name, Number: h.number, Forms: distinct(slices.Concat(untagged, whole))})
		}
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

// forms are the ways in which IP lies in a port's frames on the wire: bare, and as
// the stacks above the port have it.
func (s *survey) forms(p *port) []state.DropForm {
	forms := []state.DropForm{{}}
	for _, st := range p.stacks {
		for _, e := range st.ends {
			if e.link == p.link {
				forms = append(forms, s.form(e))
			}
		}
	}
	return distinct(forms)
}

// untag takes the outermost tags off, as the kernel does before netdev ingress
// (skb_vlan_untag, net/core/dev.c). At early_ingress only a device has done so, if
// it can.
func untag(forms []state.DropForm) (untagged []state.DropForm) {
	for _, f := range forms {
		f.Tags = f.Tags[min(len(f.Tags), 1):]
		untagged = append(untagged, f)
	}
	return distinct(untagged)
}

// distinct leaves each form out that was there before.
func distinct(all []state.DropForm) (forms []state.DropForm) {
	for _, f := range all {
		if !slices.ContainsFunc(forms, func(g state.DropForm) bool { return f.PPPoE == g.PPPoE && slices.Equal(f.Tags, g.Tags) }) {
			forms = append(forms, f)
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
