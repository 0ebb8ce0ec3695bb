// SPDX-License-Identifier: Apache-2.0

package flowsync

// Work that touches many flows is done in steps of a few ms, with the kernel's
// events in between: a connection that ends must not wait for a verification.

// chore is something to do with flows, a chunk at a time. Some may be gone or
// carried no more when their turn comes.
type chore struct {
	flows []*flow
	do    func([]*flow)
}

// working: there is work that can be done now.
func (s *Sync) working() bool {
	return len(s.unknown) > 0 || s.dumping || len(s.chores) > 0 ||
		!s.outdated() && len(s.urgent)+len(s.queue) > 0
}

// work does one step of the most urgent work.
func (s *Sync) work() {
	switch {
	case len(s.unknown) > 0:
		s.learn()
	case len(s.urgent) > 0 && !s.outdated():
		list := cut(&s.urgent)
		for _, f := range list {
			f.urgent = false
		}
		s.judge(list)
	case s.dumping:
		s.dumpPart()
	case len(s.chores) > 0:
		c := &s.chores[0]
		c.do(cut(&c.flows))
		if len(c.flows) == 0 {
			s.chores = s.chores[1:]
		}
	default:
		list := cut(&s.queue)
		for _, f := range list {
			f.queued = false
		}
		s.judge(list)
	}
}

// cut takes a chunk from the front.
func cut[T any](list *[]T) (front []T) {
	n := min(chunk, len(*list))
	front, *list = (*list)[:n:n], (*list)[n:]
	return front
}

func (s *Sync) enqueue(f *flow) {
	if !f.queued && !f.gone {
		f.queued = true
		s.queue = append(s.queue, f)
	}
}

// hurry is for flows that are known to be wrong, or that wait for nothing else.
func (s *Sync) hurry(f *flow) {
	if !f.urgent && !f.gone {
		f.urgent = true
		s.urgent = append(s.urgent, f)
	}
}

func (s *Sync) enqueueAll() {
	for _, f := range s.table.flows {
		s.enqueue(f)
	}
}

// later does something with flows, in steps.
func (s *Sync) later(flows []*flow, do func([]*flow)) {
	if len(flows) > 0 {
		s.chores = append(s.chores, chore{flows, do})
	}
}

// outdated: the world or the routes are known to have changed and are not yet
// read again. Until then flows leave the Sink and none comes into it, nor is an
// Action exchanged: it would be what was right once. A storm of changes keeps
// new flows on the slow path.
func (s *Sync) outdated() bool { return s.again.world || s.again.routes }
