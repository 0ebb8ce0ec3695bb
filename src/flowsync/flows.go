// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"net/netip"
	"time"

	"fastpath/src/packet"
	"fastpath/src/state"
)

// Stats is what Run did so far and has now.
type Stats struct {
	Flows    int            // connections in the Sink
	Waiting  map[string]int // connections with the bit that aren't, by reason
	Full     uint64         // times that a connection found no room
	Resyncs  uint64         // dumps of conntrack
	Overruns uint64         // times that the kernel dropped events for us
}

// SetPorts says which ports have engines from now on. Flows that no longer fit
// are gone from the Sink before it returns.
func (s *Sync) SetPorts(ports []Port) {
	s.do(func() {
		byIndex := map[int]Port{}
		for _, p := range ports {
			byIndex[p.Ifindex] = p
		}
		var unfit []*flow
		for _, f := range s.table.flows {
			if f.carried && (byIndex[f.port(0).Ifindex] != f.port(0) || byIndex[f.port(1).Ifindex] != f.port(1)) {
				unfit = append(unfit, f)
			}
		}
		s.release(unfit)
		s.r = newResolver(s.o.Mark, byIndex, s.r.world, s.r.tunnels)
		s.want(look{world: true, routes: true, connections: true}, 0)
	})
}

// Flows is what the engines carry, with fresh counters.
func (s *Sync) Flows() (list []state.Flow) {
	s.do(func() {
		now := time.Now()
		s.sample(now)
		list = make([]state.Flow, 0, s.table.carried)
		for _, f := range s.table.flows {
			if f.carried {
				list = append(list, f.state(now))
			}
		}
	})
	return list
}

// Why says of a connection that carries the bit why no engine does; "" if one
// does. The tuple is one of the four that the connection's packets have.
func (s *Sync) Why(proto string, src, dst netip.AddrPort) (reason string, known bool) {
	s.do(func() {
		t := packet.Tuple{Proto: protocols[proto], Src: src, Dst: dst}
		if f := s.find(t); f != nil {
			reason, known = f.reason, true
			if reason == "" && !f.carried {
				reason = "it is about to be judged"
			}
		}
	})
	return reason, known
}

func (s *Sync) find(t packet.Tuple) *flow {
	if f := s.table.flows[t]; f != nil {
		return f
	}
	if f := s.table.flows[turned(t)]; f != nil {
		return f
	}
	for _, f := range s.table.flows {
		if f.reply == t || turned(f.reply) == t {
			return f
		}
	}
	return nil
}

// Flush sends the flows that match back to the slow path, to be judged again.
func (s *Sync) Flush(match func(state.Flow) bool) (n int) {
	s.do(func() {
		now := time.Now()
		var list []*flow
		for _, f := range s.table.flows {
			if f.carried && match(f.state(now)) {
				list = append(list, f)
			}
		}
		s.release(list)
		n = len(list)
	})
	return n
}

// Stats is a sample.
func (s *Sync) Stats() (st Stats) {
	s.do(func() {
		st = s.stats
		st.Flows = s.table.carried
		st.Waiting = map[string]int{}
		for _, f := range s.table.flows {
			if !f.carried {
				st.Waiting[f.reason]++
			}
		}
	})
	return st
}

var protocols = map[string]uint8{"tcp": packet.TCP, "udp": packet.UDP}

// state is a flow in the Sink, for the owner.
func (f *flow) state(now time.Time) state.Flow {
	s := state.Flow{
		Engine: f.port(0).Engine, Family: "ipv6", Proto: "udp",
		Orig: tuple(f.orig, f.sample[0]), Reply: tuple(f.reply, f.sample[1]),
		Mark: f.mark, Counted: true,
		In: f.port(0).Name, Out: f.port(1).Name, Encap: f.encap(),
		Idle: now.Sub(f.active).Seconds(),
	}
	if f.orig.Src.Addr().Is4() {
		s.Family = "ipv4"
	}
	if f.orig.Proto == packet.TCP {
		s.Proto = "tcp"
	}
	return s
}

func tuple(t packet.Tuple, c count) state.Tuple {
	return state.Tuple{
		Src: t.Src.Addr().String(), Dst: t.Dst.Addr().String(), SrcPort: t.Src.Port(), DstPort: t.Dst.Port(),
		Packets: c.packets, Bytes: c.bytes,
	}
}
