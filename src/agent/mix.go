// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"fastpath/src/state"
	"fastpath/src/status"
)

// A port's mix changes only when a clear majority of the traffic has been
// another for several windows in a row; what lies between the bounds speaks
// neither for a change nor against it.
const (
	// mixWindow is how much time a judgement needs, mixLongest how long it waits
	// for a port to receive mixPackets. With less the receive mode hardly matters.
	mixWindow  = 10.0 // seconds
	mixLongest = 60.0
	mixPackets = 10_000
	mixHold    = 3 // windows in a row
	// mixFree is how many moves in an hour a port may make so; each further one
	// has to hold twice as long. Traffic that comes and goes must not cost all
	// flows their place each time.
	mixFree  = 3
	mixLimit = 6 // doublings at most

	// The shares of what a port received from which it counts as local or as
	// forwarding: what is unknown counts for neither.
	mostLocal     = 0.75
	mostForwarded = 0.50

	// Flows at a time. A list of NAPI holds 64 packets (NAPI_POLL_WEIGHT,
	// include/linux/netdevice.h), of which GRO joins those of one flow. make
	// bench-vm on 7.3.4, in instructions a packet: fraglist at ingress 3849 with
	// one flow and 6008 with ten, so about 3600 + 15400/joined; bulks at
	// early_ingress 4162 and 4290. The two meet between two flows and three.
	fewFlows  = 2
	manyFlows = 4

	// tvHold is for how long a device counts as one with multicast TV after the
	// last sight of it: zapping must not switch offloads.
	tvHold = time.Hour
)

// mixer is the agent's memory of the traffic.
type mixer struct {
	ports   map[string]*portMix
	seconds float64 // of the window
	blind   bool    // the next interval proves nothing: the flows bring their history along
	run     cost    // since a window first said that the mix is another
	tv      map[string]sighting
}

type sighting struct {
	why  string
	last time.Time
}

// portMix is one port's: what is settled, and what the windows since then say.
type portMix struct {
	state.Mix
	port   state.Link // as it was; another one starts anew
	window portShare
	weight float64 // of window.flows, in bytes
	next   state.MixKind
	held   int
	moves  []time.Time // in the last hour
	// refused is until when a kind isn't followed: what it led to was worse.
	refused map[state.MixKind]time.Time
}

// add weighs one more interval and tells which ports' mix has settled anew.
func (m *mixer) add(d status.Delta, s status.Share, links []state.Link, place func([]state.Flow) error) (settled []string, err error) {
	if m.blind || d.Uncounted > 0 { // a flow that isn't counted would seem to be local
		m.blind = false
		return nil, nil
	}
	ports, err := shares(d, links, place)
	if err != nil {
		return nil, err
	}
	enough := false
	m.meet(ports, links)
	for name, p := range m.ports {
		p.gather(ports[name])
		enough = enough || p.window.packets >= mixPackets
	}
	m.seconds += d.Seconds
	if m.open() {
		m.run = m.run.plus(costOf(d, s))
	} else {
		m.run = cost{}
	}
	if m.seconds < mixWindow || !enough && m.seconds < mixLongest {
		return nil, nil
	}
	m.seconds = 0
	for _, name := range slices.Sorted(maps.Keys(m.ports)) {
		if p := m.ports[name]; p.judge(time.Now()) {
			settled = append(settled, name)
		}
	}
	return settled, nil
}

// meet keeps the memory to the ports that there are; one that has changed begins anew.
func (m *mixer) meet(ports map[string]*portShare, links []state.Link) {
	before := m.ports
	m.ports = make(map[string]*portMix, len(ports))
	for i := range links {
		l := &links[i]
		if ports[l.Name] == nil {
			continue
		}
		now := state.Link{Index: l.Index, Driver: l.Driver, Queues: l.Queues, Steered: l.Steered}
		if m.ports[l.Name] = before[l.Name]; before[l.Name] == nil || before[l.Name].port != now {
			m.ports[l.Name] = &portMix{port: now, refused: map[state.MixKind]time.Time{}}
		}
	}
}

func (p *portMix) gather(s *portShare) {
	w := &p.window
	w.packets += s.packets
	w.received += s.received
	w.forwarded += s.forwarded
	w.local += s.local
	w.flows += s.flows * s.forwarded
	p.weight += s.forwarded
}

// judge ends p's window and reports whether its mix has settled anew.
func (p *portMix) judge(now time.Time) bool {
	w := p.window
	w.flows /= max(p.weight, 1)
	p.window, p.weight = portShare{}, 0
	kind := w.kind()
	switch {
	case kind == "" || kind == p.Kind || now.Before(p.refused[kind]):
		p.next, p.held = "", 0
		return false
	case kind != p.next:
		p.next, p.held = kind, 1
		return false
	}
	p.moves = slices.DeleteFunc(p.moves, func(t time.Time) bool { return now.Sub(t) > time.Hour })
	if p.held++; p.held < mixHold<<min(max(len(p.moves)-mixFree+1, 0), mixLimit) {
		return false
	}
	p.next, p.held, p.moves = "", 0, append(p.moves, now)
	p.Mix = state.Mix{Kind: kind, Received: uint64(w.received), Forwarded: uint64(w.forwarded), Local: uint64(w.local),
		Packets: w.packets, Flows: int(w.flows + 0.5)}
	return true
}

// kind is what a window says; "" if it says nothing clear.
func (w portShare) kind() state.MixKind {
	switch {
	case w.packets < mixPackets || w.received == 0:
	case w.local >= mostLocal*w.received:
		return state.MixLocal
	case w.forwarded < mostForwarded*w.received || w.flows == 0: // the slow path's flows aren't known
	case w.flows <= fewFlows:
		return state.MixFew
	case w.flows >= manyFlows:
		return state.MixMany
	}
	return ""
}

// open: a port's traffic seems to be another, and windows are worth taking often.
func (m *mixer) open() bool {
	for _, p := range m.ports {
		if p.held > 0 {
			return true
		}
	}
	return false
}

// observed is what the plan gets to see.
func (m *mixer) observed() map[string]state.Mix {
	seen := make(map[string]state.Mix, len(m.ports))
	for name, p := range m.ports {
		if p.Kind != "" || p.Compared != "" {
			seen[name] = p.Mix
		}
	}
	return seen
}

// forgive lets everything that was refused be tried again.
func (m *mixer) forgive() {
	for _, p := range m.ports {
		clear(p.refused)
		p.Compared = ""
	}
}

// multicast adds what was seen within tvHold to what is seen now.
func (m *mixer) multicast(now time.Time, seen map[string]string) map[string]string {
	if m.tv == nil {
		m.tv = map[string]sighting{}
	}
	for device, why := range seen {
		m.tv[device] = sighting{cmp.Or(m.tv[device].why, why), now} // a steady reason while channels change
	}
	all := map[string]string{}
	for device, s := range m.tv {
		if now.Sub(s.last) > tvHold {
			delete(m.tv, device)
			continue
		}
		all[device] = s.why
	}
	return all
}
