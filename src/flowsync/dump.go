// SPDX-License-Identifier: Apache-2.0

package flowsync

// learn reads whole entries and judges them at once.
func (s *Sync) learn() {
	tuples := cut(&s.unknown)
	var list []*flow
	err := s.ct.get(tuples, func(c *connection) {
		if f := s.note(c); f != nil && c.mark&s.o.Mark == 0 {
			s.drop(f)
		} else if f != nil {
			list = append(list, f)
		}
	})
	if err != nil {
		s.distrust(err)
		return
	}
	s.judge(list)
}

// beginDump begins to make the table as conntrack is.
func (s *Sync) beginDump() {
	if s.dumping {
		s.redump = true
		return
	}
	s.stats.Resyncs++
	s.table.full = false
	s.table.dump++
	if err := s.dumper.beginMarked(s.o.Mark); err != nil {
		s.distrust(err)
		return
	}
	s.dumping = true
	clear(s.heard)
}

// dumpPart reads a part. What it tells may be older than an event that came
// meanwhile, so an entry that events told of is read by itself.
func (s *Sync) dumpPart() {
	more, err := s.dumper.partMarked(s.o.Mark, func(c *connection) {
		if s.heard[c.id] {
			s.unknown = append(s.unknown, c.orig)
		} else if f := s.note(c); f != nil {
			s.enqueue(f)
		}
	})
	s.dumping = more && err == nil
	switch {
	case err != nil:
		s.distrust(err)
	case !more:
		s.endDump()
	}
}

// endDump takes out the flows that conntrack has no more.
func (s *Sync) endDump() {
	var gone []*flow
	for _, f := range s.table.flows {
		if f.dump != s.table.dump {
			gone = append(gone, f)
		}
	}
	dump := s.table.dump
	s.later(gone, func(list []*flow) {
		for _, f := range list {
			if f.dump < dump && !f.gone { // it was not learnt again
				s.drop(f)
			}
		}
	})
	s.keepAlive()
	s.keepTunnels()
	if s.redump {
		s.redump = false
		s.want(look{connections: true}, 0)
	}
}
