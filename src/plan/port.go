// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"sort"
	"strings"

	"fastpath/src/config"
	"fastpath/src/state"
)

// port is a link that is an end of one or more stacks: what a flowtable lists.
type port struct {
	link     *state.Link
	networks []string
	paths    []string
	stacks   []*stack      // above it
	sections []config.Port // that speak of it, the nearest first
	carries  bool          // flows of at least one stack may use the flowtable
	why      string        // why not, if they may not
	receive  string        // the wanted mode; auto: free choice
	denied   string        // why fraglist GRO must not be on; "": it may
	engine   state.Engine  // that its sections ask for; Kind "": none
	refused  string        // why it doesn't get it; "": it does
}

// findPorts gathers the ends of all stacks.
func (s *survey) findPorts() []*port {
	found := map[int]*port{}
	sections := map[int]map[int]bool{} // link → indexes of c.Ports
	index := s.sectionIndex()
	for _, st := range s.stacks {
		joined := map[int]bool{} // an end may be reached by more than one path
		for _, e := range st.ends {
			p := found[e.link.Index]
			if p == nil {
				p = &port{link: e.link}
				found[e.link.Index], sections[e.link.Index] = p, map[int]bool{}
			}
			if !joined[e.link.Index] {
				joined[e.link.Index] = true
				p.networks = append(p.networks, st.networks...)
				p.stacks = append(p.stacks, st)
				index.collect(sections[e.link.Index], "@", st.networks)
			}
			p.join(st, e)
			index.collect(sections[e.link.Index], "", e.path)
		}
	}
	ports := make([]*port, 0, len(found))
	s.byLink = found
	for link, p := range found {
		s.settle(p, sections[link])
		ports = append(ports, p)
	}
	sort.Slice(ports, func(i, j int) bool { return ports[i].link.Name < ports[j].link.Name })
	for _, p := range ports {
		s.disagreement(p)
	}
	return ports
}

// join adds one stack above p.
func (p *port) join(st *stack, e end) {
	p.paths = append(p.paths, strings.Join(e.path, " / "))
	switch {
	case st.slow == "" && e.why == "":
		p.carries = true
	case !p.carries && p.why == "":
		if p.why = st.slow; p.why == "" {
			p.why = e.why
		}
	}
}

// sectionIndex finds port sections by device, or by network with "@" before it.
type sectionIndex map[string][]int

func (s *survey) sectionIndex() sectionIndex {
	index := sectionIndex{}
	for i, p := range s.c.Ports {
		if p.Device != "" {
			index[p.Device] = append(index[p.Device], i)
		}
		for _, network := range p.Networks {
			index["@"+network] = append(index["@"+network], i)
		}
	}
	return index
}

func (x sectionIndex) collect(into map[int]bool, prefix string, names []string) {
	if len(x) == 0 {
		return
	}
	for _, name := range names {
		for _, i := range x[prefix+name] {
			into[i] = true
		}
	}
}

// settle puts p's sections in order: one that names the port itself before
// those that name something above it, else as written. The first mode that isn't
// auto is the port's.
func (s *survey) settle(p *port, sections map[int]bool) {
	far := func(i int) int {
		if s.c.Ports[i].Device == p.link.Name {
			return 0
		}
		return 1
	}
	order := make([]int, 0, len(sections))
	for i := range sections {
		order = append(order, i)
	}
	sort.Ints(order)
	sort.SliceStable(order, func(i, j int) bool { return far(order[i]) < far(order[j]) })
	p.receive = config.ReceiveAuto
	for _, i := range order {
		p.sections = append(p.sections, s.c.Ports[i])
		if p.receive == config.ReceiveAuto && s.c.Ports[i].Receive != "" {
			p.receive = s.c.Ports[i].Receive
		}
	}
}

// disagreement says that sections want different receive modes of one port.
func (s *survey) disagreement(p *port) {
	for _, section := range p.sections {
		if r := section.Receive; r != "" && r != config.ReceiveAuto && r != p.receive {
			s.notice("port ", p.link.Name, ": sections ask for receive '", p.receive, "' and '", r, "'; the first holds")
			return
		}
	}
}
