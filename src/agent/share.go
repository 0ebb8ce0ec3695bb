// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fastpath/src/state"
	"fastpath/src/status"
)

// What a port received is forwarded, for the router itself (local), or unknown:
// bridged, or of a flow that ended between two samples. Nobody counts these
// apart by port. What can be told:
//
//	rx         bytes that the driver received, less 14 a frame: exact but for
//	           VLAN and PPPoE headers
//	engine     bytes that the port's engine forwarded: exact
//	flowtable  how each flow grew, by conntrack's counters, and by which device
//	           each direction comes in, by the route to its sender. Routes are
//	           looked up for the largest flows, which stand for all. Below a
//	           bridge its ports share it by what they received, as nobody
//	           learns them from a route
//	slow       bytes that chain forward saw, without their ports: shared by what
//	           the ports have left
//	local      bytes that IP received (InOctets) without the slow ones, as what a
//	           flowtable or an engine forwards never comes there: shared likewise
//
// and the rest is unknown, which speaks for nothing. (Just rx - forwarded would
// take short flows for local. Conntrack's entries of the router's own
// connections would cost a dump of all, and know no ports either.)

const ethernetHeader = 14

// portShare is what one port received between two samples.
type portShare struct {
	packets   uint64 // by the driver, what an engine forwarded left out
	received  float64
	forwarded float64
	local     float64
	// flows would carry the forwarded bytes if they were equally large: the sum's
	// square by the sum of squares (the inverse of Simpson's index). One large
	// flow beside a thousand small ones is about one.
	flows float64
}

// shares splits up an interval. place fills in by which devices flows come in.
func shares(d status.Delta, links []state.Link, place func([]state.Flow) error) (map[string]*portShare, error) {
	ports := map[string]*portShare{}
	for name, p := range d.Ports {
		all := less(p.RxBytes, ethernetHeader*p.RxPackets)
		ports[name] = &portShare{packets: d.Kernel(name), received: float64(less(all, d.Engines[name].Bytes))}
	}
	top := make([]state.Flow, len(d.Top))
	for i := range d.Top {
		top[i] = *d.Top[i].Flow
	}
	if len(top) > 0 {
		if err := place(top); err != nil {
			return nil, err
		}
	}
	s := sharing{ports: ports, links: links, squares: map[*portShare]float64{}}
	for i, g := range d.Top {
		s.enter(top[i].In, float64(g.Orig.Bytes))
		s.enter(top[i].Out, float64(g.Reply.Bytes))
	}
	s.scale(float64(d.Known.Bytes + d.Fresh.Bytes))
	s.rest(float64(d.Slow.Bytes), float64(less(d.Stack, d.Slow.Bytes)))
	return ports, nil
}

type sharing struct {
	ports   map[string]*portShare
	links   []state.Link
	squares map[*portShare]float64
	entered float64
}

// enter adds bytes of one flow that came in by a device.
func (s *sharing) enter(device string, bytes float64) {
	var below []*portShare
	var received float64
	for _, name := range portsBelow(s.links, device, maxDepth) {
		if p := s.ports[name]; p != nil {
			below = append(below, p)
			received += p.received
		}
	}
	s.entered += bytes
	for _, p := range below {
		part := bytes
		if received > 0 {
			part *= p.received / received
		}
		p.forwarded += part
		s.squares[p] += part * part
	}
}

// scale counts the flows, then lets the entered ones stand for all bytes of flows.
func (s *sharing) scale(all float64) {
	for p, squares := range s.squares {
		if squares > 0 {
			p.flows = p.forwarded * p.forwarded / squares
		}
		p.forwarded = min(p.forwarded*all/s.entered, p.received)
	}
}

// rest shares what has no port: first the slow path's bytes, of which the few
// that belong to flows of the flowtable are counted twice, then the local ones.
func (s *sharing) rest(slow, local float64) {
	var left float64
	for _, p := range s.ports {
		left += p.received - p.forwarded
	}
	if left == 0 {
		return
	}
	slow = min(slow, left)
	for _, p := range s.ports {
		own := p.received - p.forwarded
		p.forwarded += own * slow / left
		p.local = own * min(local, left-slow) / left
	}
}

// maxDepth ends a walk through links that form a loop.
const maxDepth = 8

// portsBelow are the links at the lower end of a device: VLANs stand on one,
// bridges and bonds have several.
func portsBelow(links []state.Link, device string, depth int) (names []string) {
	var at *state.Link
	for i := range links {
		if links[i].Name == device {
			at = &links[i]
		}
	}
	if at == nil || depth == 0 {
		return nil
	}
	for i := range links {
		if l := &links[i]; l.Master == at.Index || at.Kind == "vlan" && l.Index == at.Lower {
			names = append(names, portsBelow(links, l.Name, depth-1)...)
		}
	}
	if names == nil {
		names = []string{device}
	}
	return names
}

func less(a, b uint64) uint64 { return a - min(a, b) }
