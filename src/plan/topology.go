// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"fastpath/src/config"
	"fastpath/src/state"
)

// topology answers questions about the links without searching: every lookup
// is one map access, so that a plan stays linear in the number of links.
type topology struct {
	byName   map[string]*state.Link
	byIndex  map[int]*state.Link
	ports    map[int][]*state.Link // bridge → its ports
	upper    map[int][]*state.Link // link → VLANs, PPPoE devices, tunnels, DSA ports and the master above it
	pppoe    map[string]string     // l3 device of a PPPoE interface → its Ethernet device
	sessions []state.Session
	session  string // a PPP device over Ethernet that is there; "": none
	release  string // of the kernel
}

func newTopology(o state.Observed, pppoe map[string]string) *topology {
	t := &topology{
		byName:   make(map[string]*state.Link, len(o.Links)),
		byIndex:  make(map[int]*state.Link, len(o.Links)),
		ports:    map[int][]*state.Link{},
		upper:    map[int][]*state.Link{},
		pppoe:    pppoe,
		sessions: o.Sessions,
		release:  o.Release,
	}
	for i := range o.Links {
		l := &o.Links[i]
		t.byName[l.Name], t.byIndex[l.Index] = l, l
	}
	for i := range o.Links {
		t.connect(&o.Links[i])
	}
	return t
}

// connect enters l above what it stands on and below its master.
func (t *topology) connect(l *state.Link) {
	switch {
	case stacked(l):
		t.upper[l.Lower] = append(t.upper[l.Lower], l)
	case isTunnel(l):
		if lower := t.byIndex[l.Tunnel.Lower]; lower != nil {
			t.upper[lower.Index] = append(t.upper[lower.Index], l)
		}
	case l.Kind == "ppp":
		t.session = l.Name
		if device, _ := t.below(l.Name); t.byName[device] != nil {
			index := t.byName[device].Index
			t.upper[index] = append(t.upper[index], l)
		}
	}
	if master := t.byIndex[l.Master]; master != nil {
		t.upper[l.Index] = append(t.upper[l.Index], master)
		t.ports[master.Index] = append(t.ports[master.Index], l)
	}
}

// below is the Ethernet device of a PPP device, or the reason why it isn't
// known. The kernel doesn't link the two: netifd or UCI tell by the logical
// interface; without either, a single PPPoE session leaves no choice, unless
// that session belongs to an interface that is known.
func (t *topology) below(ppp string) (device, why string) {
	if device = t.pppoe[ppp]; device != "" {
		return device, ""
	}
	switch len(t.sessions) {
	case 0:
		return "", "no PPPoE session: no Ethernet device below it"
	case 1:
		for name, device := range t.pppoe {
			if device == t.sessions[0].Device && t.byName[name] != nil {
				return "", "the only PPPoE session belongs to " + name
			}
		}
		return t.sessions[0].Device, ""
	}
	return "", "several PPPoE sessions and no logical interface that tells which one is its"
}

// pppoeDevices maps the l3 device of each PPPoE interface to its Ethernet
// device: UCI's word first, then netifd's, which knows better.
func pppoeDevices(c config.Config, o state.Observed) map[string]string {
	m := map[string]string{}
	for _, i := range c.Interfaces {
		if i.Proto == "pppoe" && i.Device != "" {
			m[i.L3Device()] = i.Device
		}
	}
	for _, i := range o.Interfaces {
		if i.Proto != "pppoe" || i.Device == "" {
			continue
		}
		l3 := i.L3Device
		if l3 == "" {
			l3 = config.Interface{Name: i.Name, Proto: i.Proto}.L3Device()
		}
		m[l3] = i.Device
	}
	return m
}

// above is l and everything that stands on it, directly or not.
func (t *topology) above(l *state.Link) []*state.Link {
	seen := map[int]bool{l.Index: true}
	all := []*state.Link{l}
	for i := 0; i < len(all); i++ {
		for _, u := range t.upper[all[i].Index] {
			if !seen[u.Index] {
				seen[u.Index] = true
				all = append(all, u)
			}
		}
	}
	return all
}

// stacked: the frames of l are those of the link below it with a tag.
func stacked(l *state.Link) bool { return l.Kind == "vlan" || isDSA(l) }

// taker is the bridge or bond whose name the packets of l bear from when it
// has received them; nil if that is l's own.
func (t *topology) taker(l *state.Link) *state.Link {
	if master := t.byIndex[l.Master]; master != nil && master.Kind != "vrf" {
		return master
	}
	return nil
}

// isL3: rules may see packets that came or go by l. What stands below VLANs,
// PPPoE devices or DSA ports has packets of its own only with an address.
func (t *topology) isL3(l *state.Link) bool {
	if l.Kind == "vrf" || t.taker(l) != nil {
		return false
	}
	return l.Addressed || !slices.ContainsFunc(t.upper[l.Index], func(u *state.Link) bool {
		return stacked(u) || u.Kind == "ppp"
	})
}

// l3Above are the l3 devices whose packets come and go by l.
func (t *topology) l3Above(l *state.Link) (found []*state.Link) {
	for _, u := range t.above(l) {
		if t.isL3(u) {
			found = append(found, u)
		}
	}
	return found
}
