// SPDX-License-Identifier: Apache-2.0

package status

import (
	"maps"
	"slices"
	"time"

	"fastpath/src/state"
)

// Volume is an amount of traffic: packets as the kernel's stack handles them
// (GRO has joined some) and bytes from the IP header on.
type Volume struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Share is how the established TCP and UDP traffic of a time was forwarded.
//
// Slow is exact: the first rule of chain forward counts it. Flows is exact
// as far as it goes: conntrack's counters of the connections that were in
// the flowtable at a sample; what a connection carried between its last
// sample and its end is missing. It includes the few packets of these
// connections that took the slow path, which nobody counts apart. So
// Accelerated is computed as Flows - Slow, as if all the slow packets had
// been theirs. Every error but one makes it smaller: connections from before
// the flowtable bring their history along, so that the first sample of a
// connection counts for no more than the ports received in the meantime.
type Share struct {
	Seconds     float64 `json:"seconds"`
	Slow        Volume  `json:"slow"`
	Flows       Volume  `json:"flows"`
	Accelerated Volume  `json:"accelerated_computed"`
	// Percent of the packets that were accelerated; absent when there were
	// none, or when the flows' packets are not counted.
	Percent *float64 `json:"accelerated_percent_computed,omitempty"`
}

// Traffic is the counters' part of Document.
type Traffic struct {
	Flows      int           `json:"flows"`   // in the flowtable at the last sample
	Counted    bool          `json:"counted"` // conntrack counts their packets (option counters, and nf_conntrack_acct)
	SinceStart Share         `json:"since_start"`
	Interval   Share         `json:"interval"` // between the last two samples
	Ports      []PortTraffic `json:"ports"`    // since the start, by the drivers' counters
}

// PortTraffic is what one port's driver counted since the start.
type PortTraffic struct {
	Name string `json:"name"`
	Rx   Volume `json:"rx"`
	Tx   Volume `json:"tx"`
}

// Delta is what happened between two samples.
type Delta struct {
	Seconds float64
	Slow    Volume
	Known   Volume // of the flows that both samples show
	Fresh   Volume // of the flows that only the later one shows, from their beginning
	Counted bool   // there were flows, and their packets are counted
	Ports   map[string]state.PortCounters
}

// Meter turns samples of counters into Traffic. Its zero value is ready; the
// first sample is where counting begins.
type Meter struct {
	last  time.Time
	prev  state.Counters
	flows map[flowKey]Volume
	now   Traffic
	ports map[string]PortTraffic
}

type flowKey struct {
	proto    string
	src, dst string
	sport    uint16
	dport    uint16
}

// Last is the time of the last sample; zero: there was none.
func (m *Meter) Last() time.Time { return m.last }

// Traffic is what the samples up to now add up to.
func (m *Meter) Traffic() Traffic {
	t := m.now
	t.Ports = make([]PortTraffic, 0, len(m.ports))
	for _, name := range slices.Sorted(maps.Keys(m.ports)) {
		t.Ports = append(t.Ports, m.ports[name])
	}
	return t
}

// Add takes one sample and returns what happened since the one before; the
// first one's Delta is zero.
func (m *Meter) Add(now time.Time, c state.Counters, flows []state.Flow) Delta {
	first := m.last.IsZero()
	known, fresh, counted := m.countFlows(flows)
	d := Delta{Counted: counted, Ports: map[string]state.PortCounters{}}
	if !first {
		d.Seconds = now.Sub(m.last).Seconds()
		d.Known, d.Fresh = known, fresh
		d.Slow = Volume{grown(m.prev.SlowPackets, c.SlowPackets), grown(m.prev.SlowBytes, c.SlowBytes)}
		for name, p := range c.Ports {
			if before, ok := m.prev.Ports[name]; ok {
				d.Ports[name] = portGrown(before, p)
			}
		}
	}
	m.last, m.prev = now, c
	m.now.Flows, m.now.Counted = len(flows), counted || len(flows) == 0
	m.addPorts(c, d)
	if !first {
		m.now.Interval = d.share(m.now.Counted)
		m.now.SinceStart = m.now.SinceStart.plus(m.now.Interval, m.now.Counted)
	}
	return d
}

// countFlows remembers the flows' counters and tells how they grew.
func (m *Meter) countFlows(flows []state.Flow) (known, fresh Volume, counted bool) {
	next := make(map[flowKey]Volume, len(flows))
	for _, f := range flows {
		if !f.Counted {
			continue
		}
		counted = true
		key := flowKey{f.Proto, f.Orig.Src, f.Orig.Dst, f.Orig.SrcPort, f.Orig.DstPort}
		v := Volume{f.Orig.Packets + f.Reply.Packets, f.Orig.Bytes + f.Reply.Bytes}
		next[key] = v
		// Fewer packets than before: another connection with the same tuple.
		if before, ok := m.flows[key]; ok && before.Packets <= v.Packets {
			known = known.plus(Volume{v.Packets - before.Packets, v.Bytes - min(before.Bytes, v.Bytes)})
		} else {
			fresh = fresh.plus(v)
		}
	}
	m.flows = next
	return known, fresh, counted
}

func (m *Meter) addPorts(c state.Counters, d Delta) {
	ports := make(map[string]PortTraffic, len(c.Ports))
	for name := range c.Ports {
		p := m.ports[name]
		g := d.Ports[name]
		ports[name] = PortTraffic{
			Name: name,
			Rx:   p.Rx.plus(Volume{g.RxPackets, g.RxBytes}),
			Tx:   p.Tx.plus(Volume{g.TxPackets, g.TxBytes}),
		}
	}
	m.ports = ports
}

// share is the Delta's Share: see there for the arithmetic.
func (d Delta) share(counted bool) Share {
	var rx Volume
	for _, p := range d.Ports {
		rx = rx.plus(Volume{p.RxPackets, p.RxBytes})
	}
	s := Share{Seconds: d.Seconds, Slow: d.Slow, Flows: d.Known.plus(Volume{
		min(d.Fresh.Packets, less(rx.Packets, d.Known.Packets)),
		min(d.Fresh.Bytes, less(rx.Bytes, d.Known.Bytes)),
	})}
	s.Accelerated = Volume{less(s.Flows.Packets, s.Slow.Packets), less(s.Flows.Bytes, s.Slow.Bytes)}
	return s.withPercent(counted)
}

func (s Share) plus(o Share, counted bool) Share {
	sum := Share{
		Seconds:     s.Seconds + o.Seconds,
		Slow:        s.Slow.plus(o.Slow),
		Flows:       s.Flows.plus(o.Flows),
		Accelerated: s.Accelerated.plus(o.Accelerated),
	}
	return sum.withPercent(counted)
}

// withPercent knows nothing where flows are carried but not counted.
func (s Share) withPercent(counted bool) Share {
	all := s.Accelerated.Packets + s.Slow.Packets
	if all > 0 && (counted || s.Flows.Packets > 0) {
		p := 100 * float64(s.Accelerated.Packets) / float64(all)
		s.Percent = &p
	}
	return s
}

func (v Volume) plus(o Volume) Volume { return Volume{v.Packets + o.Packets, v.Bytes + o.Bytes} }

// less is a - b, at least 0.
func less(a, b uint64) uint64 { return a - min(a, b) }

// grown is how much a counter grew. A smaller value than before means that
// it was made anew (our table was replaced, the device came back).
func grown(before, now uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

func portGrown(before, now state.PortCounters) state.PortCounters {
	return state.PortCounters{
		RxPackets: grown(before.RxPackets, now.RxPackets),
		RxBytes:   grown(before.RxBytes, now.RxBytes),
		TxPackets: grown(before.TxPackets, now.TxPackets),
		TxBytes:   grown(before.TxBytes, now.TxBytes),
		Ingress:   grown(before.Ingress, now.Ingress),
	}
}
