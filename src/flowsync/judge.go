// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/packet"
)

const crowdedReason = "there is no room for more flows in the engines"

// judge resolves flows and makes the Sink so: first out with what is wrong,
// then the connections are prepared, then in with what is new. A flow may be in
// the list twice.
func (s *Sync) judge(list []*flow) {
	results, err := s.resolveAll(list)
	if err != nil {
		s.distrust(err)
		return
	}
	s.hear() // what was told while the routes were asked for
	outdated := s.outdated()
	now := time.Now()
	var fresh []*flow
	s.round++
	for i, f := range list {
		again := f.round == s.round
		f.round = s.round
		switch res := &results[i]; {
		case f.gone, again:
		case outdated && res.reason == "", res.stale():
			if f.carried && (res.reason != "" || f.path != res.path) {
				s.remove(f) // the old path isn't right, nor the new one for sure
			}
			s.hurry(f)
		case f.carried && res.reason == "" && res.path.key == f.path.key && res.port(0) == f.port(0) && res.port(1) == f.port(1):
			s.exchange(f, res)
		default:
			s.remove(f)
			f.resolution = *res
			delete(s.table.crowded, f)
			if f.reason == "" {
				fresh = append(fresh, f)
			} else {
				f.path, f.crowded = path{}, false
			}
		}
	}
	for _, f := range s.prepare(fresh) {
		s.put(f, now)
	}
}

// resolveAll asks the kernel for routes until each flow has a result. The
// results are valid until the next call.
func (s *Sync) resolveAll(list []*flow) ([]resolution, error) {
	results := slices.Grow(s.results[:0], len(list))[:len(list)]
	s.results = results
	open := make([]int, len(list))
	for i := range open {
		open[i] = i
	}
	for {
		rest := open[:0]
		for _, i := range open {
			if s.listed(&list[i].connection) {
				results[i] = resolution{reason: listedReason}
				continue
			}
			res, ready := s.r.resolve(&list[i].connection)
			if !ready {
				rest = append(rest, i)
				continue
			}
			results[i] = res
		}
		if open = rest; len(open) == 0 {
			return results, nil
		}
		if err := s.ask(); err != nil {
			return nil, err
		}
	}
}

// ask gets the routes that the resolver lacks.
func (s *Sync) ask() error {
	qs := make([]query, 0, len(s.r.missing))
	for q := range s.r.missing {
		qs = append(qs, q)
	}
	clear(s.r.missing)
	return s.reader.routes(qs, func(q query, a route) { s.r.known[q] = a })
}

// exchange changes what is done with a flow's packets. Its keys stay.
func (s *Sync) exchange(f *flow, res *resolution) {
	f.ends = res.ends
	for i, act := range res.path.act {
		if act == f.path.act[i] {
			continue
		}
		f.path.act[i] = act
		if err := s.enter(f, i); err != nil {
			s.refuse(f, err)
			return
		}
	}
}

// prepare makes conntrack ready to miss packets of the flows that engines will
// take from it. It returns those for which that is done. TCP's window is of no
// matter then. UDP counts as assured, for which conntrack would have to see two
// seconds of it; it stays so when the flow leaves the engines, as conntrack can't
// take it back.
func (s *Sync) prepare(list []*flow) []*flow {
	var ask []*flow
	for _, f := range list {
		if f.orig.Proto == packet.TCP && !f.liberal || f.orig.Proto == packet.UDP && f.status&statusAssured == 0 {
			ask = append(ask, f)
		}
	}
	err := s.ct.update(len(ask), func(i int) *packet.Tuple { return &ask[i].orig },
		func(w *writer, i int) {
			if f := ask[i]; f.orig.Proto == packet.TCP {
				beLiberal(w)
			} else {
				beAssured(w, f.status)
			}
		},
		func(i int, err error) {
			if errors.Is(err, unix.ENOENT) {
				s.drop(ask[i])
				return
			}
			ask[i].reason = fmt.Sprintf("conntrack would not be prepared to miss its packets: %v", err)
		})
	for _, f := range ask {
		switch {
		case err != nil:
			f.reason = err.Error()
		case f.reason != "" || f.gone:
		case f.orig.Proto == packet.TCP:
			f.liberal = true
		default:
			f.status |= statusAssured
		}
	}
	good := list[:0]
	for _, f := range list {
		if !f.gone && f.reason == "" {
			good = append(good, f)
		}
	}
	return good
}

// put adds both directions, or none.
func (s *Sync) put(f *flow, now time.Time) {
	for _, k := range f.path.key {
		if other := s.table.keys[k]; other != nil {
			s.drop(other) // the addresses and ports belong to f now
		}
	}
	if s.table.full || s.o.MaxFlows > 0 && s.table.carried >= s.o.MaxFlows {
		s.crowd(f)
		return
	}
	for i := range f.path.key {
		err := s.r.tunnels.tell(s.o.Sink, f.ends[i])
		if err == nil {
			err = s.enter(f, i)
		}
		if err != nil {
			s.refuse(f, err)
			return
		}
	}
	f.carried, f.crowded, f.active = true, false, now
	s.table.carried++
	for _, k := range f.path.key {
		s.table.keys[k] = f
	}
}

func (s *Sync) enter(f *flow, i int) error {
	return s.o.Sink.Put(f.port(i), f.path.key[i], f.path.act[i])
}

// refuse keeps a flow out that the Sink would not take, both directions.
func (s *Sync) refuse(f *flow, err error) {
	if f.carried {
		s.remove(f)
	} else {
		for _, k := range f.path.key {
			s.delete(k)
		}
	}
	if errors.Is(err, ErrFull) {
		s.table.full = true
		s.crowd(f)
		return
	}
	f.path, f.reason = path{}, "the engine refused it: "+err.Error()
}

// crowd lets a flow wait for room.
func (s *Sync) crowd(f *flow) {
	f.path, f.reason = path{}, crowdedReason
	if !f.crowded {
		f.crowded = true
		s.stats.Full++
	}
	s.table.crowded[f] = true
}
