// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net"

	"fastpath/src/state"
)

// Connections lists the connections that are in a flowtable, ours or fw4's, from
// conntrack: the kernel can't list a flowtable. Ports and encapsulation stay empty.
func (k *Kernel) Connections() ([]state.Flow, error) {
	const op = "list flows"
	c, err := k.nfnetlink()
	if err != nil {
		return nil, refused(op, err)
	}
	defer c.close()
	counts, err := c.flowtableCounts()
	if err != nil {
		return nil, refused(op, err)
	}
	var flows []state.Flow
	err = c.connections(state.StatusOffload, func() { flows = nil }, func(f state.Flow) {
		f.Engine, f.Counted = state.EngineFlowtable, f.Counted && counts
		flows = append(flows, f)
	})
	if err != nil {
		return nil, refused(op, err)
	}
	return flows, nil
}

// Flows is Connections with the ports and the encapsulation. They are computed
// from routes and links, one route lookup per address.
func (k *Kernel) Flows() ([]state.Flow, error) {
	flows, err := k.Connections()
	if err != nil || len(flows) == 0 {
		return nil, err
	}
	return flows, k.Place(flows)
}

// Place fills in the ports and the encapsulation of some of Connections, as
// Flows does for all.
func (k *Kernel) Place(flows []state.Flow) error {
	m, err := k.newMap()
	if err != nil {
		return refused("list flows", err)
	}
	for i := range flows {
		f := &flows[i]
		// The reply's source is the peer's own address, before NAT.
		in, out := m.place(f.Orig.Src), m.place(f.Reply.Src)
		f.In, f.Out, f.Encap = in.port, out.port, bothEncaps(in.encap, out.encap)
	}
	return nil
}

// flowtableCounts: the flowtable in force keeps conntrack's counters up to date.
func (c *conn) flowtableCounts() (bool, error) {
	for _, table := range []string{state.TableName, fw4Name} {
		list, err := c.flowtablesOf(table)
		if err != nil {
			return false, err
		}
		if len(list) > 0 {
			return list[0].flags&flowtableCounter != 0, nil
		}
	}
	return false, nil
}

// place is where packets for an address leave: the lowest device that is
// known, and what is put around them on the way down.
type place struct{ port, encap string }

// portMap computes places.
type portMap struct {
	route      func(address string) (link int, err error)
	links      map[int]state.Link
	index      map[string]int
	sessions   []state.Session
	ppps       int               // links of kind ppp
	interfaces []state.Interface // only where one session and one ppp device don't say it all
	seen       map[string]place  // by address
}

func (k *Kernel) newMap() (*portMap, error) {
	links, err := k.links()
	if err != nil {
		return nil, err
	}
	m := &portMap{
		route: k.route, links: map[int]state.Link{}, index: map[string]int{},
		sessions: readProc(procPPPoE, state.ParseSessions), seen: map[string]place{},
	}
	for _, l := range links {
		m.links[l.Index], m.index[l.Name] = l, l.Index
		if l.Kind == "ppp" {
			m.ppps++
		}
	}
	if m.ppps > 1 || len(m.sessions) > 1 {
		if m.interfaces, _, err = k.interfaces(); err != nil {
			k.log.Warn("netifd does not answer", "err", err)
		}
	}
	return m, nil
}

func (k *Kernel) route(address string) (int, error) {
	if err := k.inject("look up a route"); err != nil {
		return 0, err
	}
	routes, err := k.routes.RouteGet(net.ParseIP(address))
	if err != nil {
		return 0, err
	}
	if len(routes) == 0 {
		return 0, fmt.Errorf("no route to %s", address)
	}
	if routes[0].LinkIndex == 0 && len(routes[0].MultiPath) > 0 {
		return routes[0].MultiPath[0].LinkIndex, nil
	}
	return routes[0].LinkIndex, nil
}

// place of an address without a route is empty: nothing is known about it.
func (m *portMap) place(address string) place {
	p, ok := m.seen[address]
	if ok {
		return p
	}
	if link, err := m.route(address); err == nil {
		p = m.descend(link)
	}
	m.seen[address] = p
	return p
}

// maxDepth ends a walk through links that change while they are read.
const maxDepth = 8

// descend walks from the device of a route to the lowest one. Behind a bridge
// it stops: its port is the forwarding database's to tell.
func (m *portMap) descend(link int) (p place) {
	for range maxDepth {
		l, ok := m.links[link]
		if !ok {
			return p
		}
		p.port = l.Name
		switch l.Kind {
		case "vlan":
			p.encap = over(p.encap, vlanName(l))
			link = l.Lower
		case "ppp":
			s := m.session(l.Name)
			if s == nil {
				p.encap = over(p.encap, "ppp")
				return p
			}
			p.encap = over(p.encap, fmt.Sprintf("pppoe session %d", s.ID))
			link = m.index[s.Device]
		case "ipip", "ip6tnl":
			p.encap = over(p.encap, l.Tunnel.Mode+" tunnel")
			link = l.Tunnel.Lower
		default:
			return p
		}
	}
	return p
}

// session finds the PPPoE session of a ppp device. The kernel doesn't tell: it
// is the only one, or netifd knows the device below; else nobody knows.
func (m *portMap) session(ppp string) *state.Session {
	if len(m.sessions) == 1 && m.ppps == 1 {
		return &m.sessions[0]
	}
	for _, i := range m.interfaces {
		if i.L3Device != ppp {
			continue
		}
		for n := range m.sessions {
			if m.sessions[n].Device == i.Device {
				return &m.sessions[n]
			}
		}
	}
	return nil
}

func vlanName(l state.Link) string {
	if l.QinQ {
		return fmt.Sprintf("802.1ad vlan %d", l.VLAN)
	}
	return fmt.Sprintf("vlan %d", l.VLAN)
}

func over(upper, lower string) string {
	if upper == "" {
		return lower
	}
	return upper + " over " + lower
}

func bothEncaps(in, out string) string {
	switch {
	case in == "":
		return out
	case out == "":
		return in
	}
	return "in: " + in + "; out: " + out
}
