// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fastpath/src/state"
)

// reference is walk the slow, obvious way: no memory of what was visited but the
// path itself, so it takes every path there is.
type reference struct {
	links []state.Link
	ends  map[string]bool
	loop  bool
}

func (r *reference) find(ok func(state.Link) bool) (state.Link, bool) {
	i := slices.IndexFunc(r.links, ok)
	if i < 0 {
		return state.Link{}, false
	}
	return r.links[i], true
}

// down is whether anything is below l.
func (r *reference) down(l state.Link, encaps int, path []string) bool {
	if slices.Contains(path, l.Name) {
		r.loop = true
		return false
	}
	if encaps > 2 {
		return false
	}
	path = append(slices.Clone(path), l.Name)
	switch l.Kind {
	case "vlan":
		lower, ok := r.find(func(x state.Link) bool { return x.Index == l.Lower })
		return ok && r.down(lower, encaps+1, path)
	case "ppp":
		if l.Name != "ppp0" {
			return false // no session of its own
		}
		lower, ok := r.find(func(x state.Link) bool { return x.Name == "n1" })
		return !ok || r.down(lower, encaps+1, path) // a missing device is waited for
	case "bridge":
		ports, fit := 0, 0
		for _, port := range r.links {
			if port.Master != l.Index || port.Kind == "dummy" {
				continue
			}
			ports++
			if r.down(port, encaps, path) {
				fit++
			}
		}
		return fit > 0 || ports == 0
	case "dummy":
		return false
	}
	r.ends[l.Name] = true
	return true
}

// randomLinks is a heap of links wired at random: dangling, crossing, in loops.
func randomLinks(r *rand.Rand) []state.Link {
	kinds := []string{"", "", "vlan", "vlan", "vlan", "bridge", "bridge", "dummy", "ppp"}
	links := make([]state.Link, 3+r.IntN(9))
	for i := range links {
		kind := kinds[r.IntN(len(kinds))]
		name := fmt.Sprintf("n%d", i)
		if kind == "ppp" {
			name = fmt.Sprintf("ppp%d", i)
		}
		links[i] = state.Link{Index: i + 1, Name: name, Kind: kind, Lower: r.IntN(len(links) + 2)}
		if m := r.IntN(len(links) + 1); m > 0 && r.IntN(2) == 0 && m != i+1 {
			links[i].Master = m
		}
	}
	return links
}

// TestWalkReference compares walk with the reference, and shows that it ends whatever the links are.
func TestWalkReference(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2026))
	compared, loops := 0, 0
	for range 20000 {
		o := state.Observed{Links: randomLinks(r)}
		topo := newTopology(o, map[string]string{"ppp0": "n1"})
		for _, l := range o.Links {
			ref := reference{links: o.Links, ends: map[string]bool{}}
			fit := ref.down(l, 0, nil)
			w := walk{t: topo, limit: maxEncaps, onPath: map[int]bool{}, seen: map[visit]string{}}
			why := w.down(topo.byName[l.Name], 0)
			if len(w.path) != 0 || len(w.onPath) != 0 {
				t.Fatalf("the walk from %s left its path behind", l.Name)
			}
			if ref.loop {
				loops++
				continue // which link of a loop is left out depends on the way in
			}
			compared++
			got := map[string]bool{}
			for _, e := range w.ends {
				if e.why == "" {
					got[e.link.Name] = true
				}
			}
			if (why == "") != fit || !maps.Equal(got, ref.ends) {
				t.Fatalf("from %s: %v %q, reference %v %v\n%+v", l.Name, got, why, ref.ends, fit, o.Links)
			}
		}
	}
	if compared < 10000 || loops < 1000 {
		t.Errorf("%d compared, %d loops: too few to mean anything", compared, loops)
	}
}

// TestWalkCrossing: VLANs and bridges piled up so that every layer doubles the
// number of paths; the work must not double with it.
func TestWalkCrossing(t *testing.T) {
	o := state.Observed{}
	add := func(l state.Link) int {
		l.Index = len(o.Links) + 1
		l.Name = fmt.Sprintf("l%d", l.Index)
		o.Links = append(o.Links, l)
		return l.Index
	}
	below := add(state.Link{})
	const layers, width = 2, 500
	for range layers {
		bridge := add(state.Link{Kind: "bridge"})
		for range width {
			add(state.Link{Kind: "vlan", Lower: below, Master: bridge})
		}
		below = bridge
	}
	topo := newTopology(o, nil)
	w := walk{t: topo, limit: maxEncaps, onPath: map[int]bool{}, seen: map[visit]string{}}
	if why := w.down(topo.byIndex[below], 0); why != "" {
		t.Fatal(why)
	}
	if len(w.ends) != 1 || len(w.seen) > 3*len(o.Links) {
		t.Errorf("%d ends, %d visits for %d links", len(w.ends), len(w.seen), len(o.Links))
	}
	if path := strings.Join(w.ends[0].path, " "); !strings.HasSuffix(path, "l1") {
		t.Errorf("path %s", path)
	}
}

// l3Below is what l3Above means, from the other side: the links whose packets
// come and go by u, found by going down.
func (r *reference) l3Below(u state.Link, found map[string]bool) {
	if found[u.Name] {
		return
	}
	found[u.Name] = true
	for _, l := range r.links {
		tagged := (u.Kind == "vlan" || u.Kind == "dsa") && u.Lower == l.Index
		session := u.Kind == "ppp" && u.Name == "ppp0" && l.Name == "n1"
		if tagged || session || l.Master == u.Index {
			r.l3Below(l, found)
		}
	}
}

// seen: rules see u's name.
func (r *reference) seen(u state.Link) bool {
	if master, ok := r.find(func(x state.Link) bool { return x.Index == u.Master }); u.Kind == "vrf" || ok && master.Kind != "vrf" {
		return false
	}
	_, below := r.find(func(x state.Link) bool {
		return x.Lower == u.Index && (x.Kind == "vlan" || x.Kind == "dsa") || x.Name == "ppp0" && x.Kind == "ppp" && u.Name == "n1"
	})
	return u.Addressed || !below
}

// TestL3Reference compares l3Above with the reference; loops are no matter.
func TestL3Reference(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 2026))
	several, none := 0, 0
	for range 5000 {
		o := state.Observed{Links: randomLinks(rnd)}
		for i := range o.Links {
			l := &o.Links[i]
			l.Addressed = rnd.IntN(3) == 0
			if rnd.IntN(3) == 0 {
				l.Kind = []string{"vrf", "bond", "dsa"}[rnd.IntN(3)]
			}
		}
		topo := newTopology(o, map[string]string{"ppp0": "n1"})
		want := map[string]map[string]bool{}
		ref := reference{links: o.Links}
		for _, u := range o.Links {
			below := map[string]bool{}
			if !ref.seen(u) {
				continue
			}
			ref.l3Below(u, below)
			for name := range below {
				if want[name] == nil {
					want[name] = map[string]bool{}
				}
				want[name][u.Name] = true
			}
		}
		for i := range o.Links {
			got := map[string]bool{}
			for _, u := range topo.l3Above(&o.Links[i]) {
				got[u.Name] = true
			}
			if name := o.Links[i].Name; !maps.Equal(got, want[name]) {
				t.Fatalf("above %s: %v, reference %v\n%+v", name, got, want[name], o.Links)
			}
			if len(got) > 1 {
				several++
			} else if len(got) == 0 {
				none++
			}
		}
	}
	if several < 1000 || none < 100 {
		t.Errorf("several above %d times, none %d times: too few to mean anything", several, none)
	}
}
