// SPDX-License-Identifier: Apache-2.0

package flowsync

import "time"

// look is what has to be read again.
type look struct {
	world       bool // links, addresses, rules, neighbours
	routes      bool // every flow has to be resolved again, whatever the world says
	connections bool
	activity    bool // who has packets
}

// want reads again after a while, once for all that came until then.
func (s *Sync) want(l look, after time.Duration) {
	s.again.world = s.again.world || l.world
	s.again.routes = s.again.routes || l.routes
	s.again.connections = s.again.connections || l.connections
	s.again.activity = s.again.activity || l.activity
	due := time.Now().Add(after)
	if due.Before(s.notBefore) {
		due = s.notBefore
	}
	if s.due.IsZero() || due.Before(s.due) {
		s.due = due
		s.timer.Reset(time.Until(due))
	}
}

// lookAgain reads what is wanted, and rests as long as that took: a storm of
// changes gets half of the time at most.
func (s *Sync) lookAgain() {
	s.hear() // what is told already needs no other look
	begin, l := time.Now(), s.again
	s.again, s.due = look{}, time.Time{}
	defer func() {
		now := time.Now()
		s.notBefore = now.Add(now.Sub(begin))
	}()
	if l.world || l.routes {
		w, err := s.reader.world()
		if err != nil {
			s.distrust(err)
			return
		}
		if l.routes || !w.equal(s.r.world) {
			s.r = newResolver(s.o.Mark, s.r.ports, w, s.r.tunnels)
			s.enqueueAll()
		}
	}
	if l.activity {
		s.activity(begin)
	}
	if l.connections {
		s.beginDump()
	}
}

// keepTunnels forgets the tunnels of ends that are no more.
func (s *Sync) keepTunnels() {
	if len(s.r.tunnels.ids) == 0 {
		return
	}
	used := map[uint16]bool{}
	note := func(e *end) {
		if e.wire.Tunnel != 0 {
			used[e.wire.Tunnel] = true
		}
	}
	for _, e := range s.r.ends {
		note(e)
	}
	for _, f := range s.table.flows {
		if f.carried {
			note(f.ends[0])
			note(f.ends[1])
		}
	}
	if err := s.r.tunnels.keep(s.o.Sink, used); err != nil {
		s.log.Error("an engine keeps a tunnel", "err", err)
	}
}

// distrust takes every flow out of the Sink because nobody knows what is right,
// and tries again.
func (s *Sync) distrust(err error) {
	s.log.Error("flows go back to the slow path", "err", err)
	for _, f := range s.table.flows {
		s.remove(f)
		f.resolution = resolution{reason: err.Error()}
		f.queued, f.urgent = false, false
	}
	s.queue, s.urgent = nil, nil
	clear(s.table.crowded)
	s.want(look{world: true, routes: true, connections: true}, retry)
}

// take acts upon what the kernel told.
func (s *Sync) take(rep report) {
	if rep.overrun {
		s.stats.Overruns++
		s.want(look{world: true, routes: true, connections: true}, settle)
	}
	if rep.world || rep.routes {
		s.want(look{world: true, routes: rep.routes}, settle)
	}
	s.takeNeighbours(rep.neighbours)
	for i := range rep.connections {
		if e := &rep.connections[i]; s.takeEvent(e) {
			s.unknown = append(s.unknown, e.orig)
		}
	}
}

// takeEvent acts upon an update of a connection. unknown: the whole entry has
// to be read.
func (s *Sync) takeEvent(e *event) (unknown bool) {
	if s.dumping {
		s.heard[e.id] = true
	}
	f := s.table.flows[e.orig]
	marked := e.mark&s.o.Mark != 0
	switch {
	case f != nil && f.id != e.id: // f's end may still be on its way to us, or is past
		return marked && !e.gone && !ended(&e.connection)
	case e.gone || ended(&e.connection):
		if f != nil {
			s.drop(f)
		}
		return false
	case !marked: // or it is told late: two CPUs may tell in the wrong order
		return f != nil
	case f == nil || !f.carried:
		return true
	}
	const telling = statusSeqAdjust | statusOffload
	return f.mark != e.mark || (f.status^e.status)&telling != 0
}

// takeNeighbours writes changes into the world and judges the flows again that
// went by what has changed.
func (s *Sync) takeNeighbours(changes []change) {
	changed := map[use]bool{}
	for _, c := range changes {
		if what, is := s.r.world.noteNeighbour(c.body, c.gone); is {
			changed[what] = true
		}
	}
	if len(changed) == 0 || !s.r.forget(changed) {
		return
	}
	for _, f := range s.table.flows {
		for _, e := range f.ends {
			if e == nil || !e.stale {
				continue
			}
			if s.outdated() {
				s.remove(f)
			}
			s.hurry(f)
		}
	}
}
