// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"time"

	"fastpath/src/packet"
)

// flow is a connection that carries the bit.
type flow struct {
	connection
	resolution           // of the last time that it was judged
	carried    bool      // it is in the Sink, both directions
	queued     bool      // it will be judged
	urgent     bool      // soon
	gone       bool      // it is in the table no more
	crowded    bool      // there was no room for it; told once
	round      uint64    // the last one of judge that it was in
	dump       uint64    // the last dump of conntrack that had it
	sample     [2]count  // what the Sink has counted
	active     time.Time // when it was last seen to have packets
}

type count struct{ packets, bytes uint64 }

// table holds the flows, by what packets of the originator have when they come
// in, and the ones in the Sink by both keys.
type table struct {
	flows   map[packet.Tuple]*flow
	keys    map[packet.Key]*flow
	carried int
	dump    uint64         // of conntrack, counted
	crowded map[*flow]bool // the flows that wait for room
	full    bool           // the Sink had no room; nothing has left it since
}

func newTable() table {
	return table{flows: map[packet.Tuple]*flow{}, keys: map[packet.Key]*flow{}, crowded: map[*flow]bool{}}
}

// remove takes a flow out of the Sink, both directions. It stays in the table.
func (s *Sync) remove(f *flow) {
	if !f.carried {
		return
	}
	for _, k := range f.path.key {
		s.delete(k)
		delete(s.table.keys, k)
	}
	f.carried, f.sample = false, [2]count{}
	s.table.carried--
	s.table.full = false
	s.makeRoom()
}

func (s *Sync) delete(k packet.Key) {
	if err := s.o.Sink.Delete(k); err != nil {
		s.log.Error("an engine keeps a flow that has ended", "flow", k, "err", err)
	}
}

// drop takes it out of the table as well.
func (s *Sync) drop(f *flow) {
	s.remove(f)
	f.gone = true
	delete(s.table.crowded, f)
	if s.table.flows[f.orig] == f {
		delete(s.table.flows, f.orig)
	}
}

// makeRoom judges one flow again that found no room.
func (s *Sync) makeRoom() {
	for f := range s.table.crowded {
		delete(s.table.crowded, f)
		s.enqueue(f)
		return
	}
}

// note writes into the table what conntrack says of a whole connection.
func (s *Sync) note(c *connection) *flow {
	f := s.table.flows[c.orig]
	if f != nil && (f.id != c.id || f.reply != c.reply) {
		s.drop(f) // another connection has its addresses and ports now
		f = nil
	}
	if ended(c) {
		if f != nil {
			s.drop(f)
		}
		return nil
	}
	if f == nil {
		f = &flow{}
		s.table.flows[c.orig] = f
	}
	f.connection, f.dump = *c, s.table.dump
	return f
}

// ended: no engine will carry it any more.
func ended(c *connection) bool {
	return c.orig.Proto == packet.TCP && c.tcpState > tcpEstablished || c.status&statusDying != 0
}
