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
// Slow is exact: the first rule of chain forward counts it. Engines is exact:
// the engines count what they forward, and nothing else in the kernel does
// (not conntrack's accounting either). Flows is exact as far as it goes:
// conntrack's counters of the connections that were in the flowtable at a
// sample; what a connection carried between its last sample and its end is
// missing. It includes the few packets of these connections that took the
// slow path, which nobody counts apart. So Flowtable is computed as Flows -
// Slow, as if all the slow packets had been theirs. Every error but one makes
// it smaller: connections from before the flowtable bring their history
// along, so that the first sample of a connection counts for no more than the
// ports received in the meantime.
type Share struct {
	Seconds     float64 `json:"seconds"`
	Slow        Volume  `json:"slow"`
	Engines     Volume  `json:"engines"`
	Flows       Volume  `json:"flows"`
	Flowtable   Volume  `json:"flowtable_computed"`
	Accelerated Volume  `json:"accelerated_computed"` // Engines + Flowtable
	// Percent of the packets that were accelerated; absent when there were
	// none, or when the flowtable's are not counted.
	Percent *float64 `json:"accelerated_percent_computed,omitempty"`
}

// Traffic is the counters' part of Document.
type Traffic struct {
	Flows       int    `json:"flows"`        // in the flowtable at the last sample
	EngineFlows int    `json:"engine_flows"` // connections that engines carried then
	EngineFull  uint64 `json:"engine_full"`  // connections since the start that found no room in an engine
	Counted     bool   `json:"counted"`      // conntrack counts the flowtable's packets (option counters, and nf_conntrack_acct)
	// Softirq is the share of the last interval, in percent, that the busiest
	// CPU spent in softirqs, where the kernel forwards; absent when unknown.
	Softirq    *float64      `json:"softirq_percent,omitempty"`
	SinceStart Share         `json:"since_start"`
	Interval   Share         `json:"interval"` // between the last two samples
	Ports      []PortTraffic `json:"ports"`    // since the start
}

// PortTraffic is what came in by one port since the start, and Tx what left.
// Rx and Tx are the driver's, with Ethernet headers. Engine is what the port's
// engine forwarded; Passed are packets that it left to the kernel, Dropped
// packets that it lost, on the way in or out, by reason. Kernel is what the kernel got: everything,
// or while the port had an engine what that passed. Which of these took the
// flowtable, the slow path or were for the router itself nobody counts by port.
type PortTraffic struct {
	Name    string            `json:"name"`
	Rx      Volume            `json:"rx"`
	Tx      Volume            `json:"tx"`
	Engine  Volume            `json:"engine"`
	Kernel  uint64            `json:"kernel_packets"`
	Passed  map[string]uint64 `json:"passed_packets"`
	Dropped map[string]uint64 `json:"dropped_packets"`
}

// Delta is what happened between two samples.
type Delta struct {
	Seconds float64
	Slow    Volume
	Known   Volume   // of the flows that both samples show
	Fresh   Volume   // of the flows that only the later one shows, from their beginning
	Top     []Growth // of all these the ones that grew most
	Counted bool     // there were flows, and their packets are counted
	// Uncounted is the number of flows whose packets aren't.
	Uncounted int
	Stack     uint64 // bytes that IP received
	Softirq   uint64 // clock ticks that the CPUs spent in softirqs
	Ports     map[string]state.PortCounters
	Engines   map[string]state.EngineCounters // of the ports whose engine both samples show
	Full      uint64                          // connections that found no room
}

// Kernel is how many packets the kernel got from a port: see PortTraffic.
func (d Delta) Kernel(port string) uint64 {
	if e, ok := d.Engines[port]; ok {
		return total(e.Passed)
	}
	return d.Ports[port].RxPackets
}

// Meter turns samples of counters into Traffic. Its zero value is ready; the
// first sample is where counting begins.
type Meter struct {
	last  time.Time
	prev  state.Counters
	flows map[flowKey][2]Volume // by direction
	now   Traffic
	ports map[string]PortTraffic
	cpus  map[string]cpuTime
	ticks uint64 // in softirqs, of all CPUs since the last sample
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
	d := m.countFlows(flows)
	counted := d.Counted
	if first {
		d = Delta{Counted: counted, Uncounted: d.Uncounted}
	}
	d.Ports, d.Engines = map[string]state.PortCounters{}, map[string]state.EngineCounters{}
	if !first {
		d.Stack = grown(m.prev.StackBytes, c.StackBytes)
		d.Seconds, d.Softirq = now.Sub(m.last).Seconds(), m.ticks
		d.Slow = Volume{grown(m.prev.SlowPackets, c.SlowPackets), grown(m.prev.SlowBytes, c.SlowBytes)}
		for name, p := range c.Ports {
			if before, ok := m.prev.Ports[name]; ok {
				d.Ports[name] = portGrown(before, p)
			}
		}
		for name, e := range c.Engines {
			if before, ok := m.prev.Engines[name]; ok {
				d.Engines[name] = engineGrown(before, e)
			}
		}
		d.Full = grown(m.prev.EngineFull, c.EngineFull)
	}
	m.last, m.prev, m.ticks = now, c, 0
	m.now.Flows, m.now.Counted = len(flows), counted || len(flows) == 0
	m.now.EngineFlows, m.now.EngineFull = c.EngineFlows, m.now.EngineFull+d.Full
	m.addPorts(c, d)
	if !first {
		m.now.Interval = d.share(m.now.Counted)
		m.now.SinceStart = m.now.SinceStart.plus(m.now.Interval, m.now.Counted)
	}
	return d
}

// countFlows remembers the flows' counters and tells how they grew.
func (m *Meter) countFlows(flows []state.Flow) (d Delta) {
	next := make(map[flowKey][2]Volume, len(flows))
	var largest top
	for i := range flows {
		f := &flows[i]
		if !f.Counted {
			d.Uncounted++
			continue
		}
		d.Counted = true
		key := flowKey{f.Proto, f.Orig.Src, f.Orig.Dst, f.Orig.SrcPort, f.Orig.DstPort}
		v := [2]Volume{{f.Orig.Packets, f.Orig.Bytes}, {f.Reply.Packets, f.Reply.Bytes}}
		next[key] = v
		g := Growth{Flow: f, Orig: v[0], Reply: v[1]}
		// Fewer packets than before: another connection with the same tuple.
		before, ok := m.flows[key]
		if ok && before[0].Packets <= v[0].Packets && before[1].Packets <= v[1].Packets {
			g.Orig, g.Reply = v[0].minus(before[0]), v[1].minus(before[1])
			d.Known = d.Known.plus(g.Orig).plus(g.Reply)
		} else {
			d.Fresh = d.Fresh.plus(g.Orig).plus(g.Reply)
		}
		largest.add(g)
	}
	m.flows, d.Top = next, largest.list
	return d
}

// addPorts makes everything anew: what Traffic gave away is read elsewhere.
func (m *Meter) addPorts(c state.Counters, d Delta) {
	ports := make(map[string]PortTraffic, len(c.Ports))
	for name := range c.Ports {
		p, g, e := m.ports[name], d.Ports[name], d.Engines[name]
		ports[name] = PortTraffic{
			Name:    name,
			Rx:      p.Rx.plus(Volume{g.RxPackets, g.RxBytes}),
			Tx:      p.Tx.plus(Volume{g.TxPackets, g.TxBytes}),
			Engine:  p.Engine.plus(Volume{e.Packets, e.Bytes}),
			Kernel:  p.Kernel + d.Kernel(name),
			Passed:  sum(p.Passed, e.Passed),
			Dropped: sum(p.Dropped, e.Dropped),
		}
	}
	m.ports = ports
}

// share is the Delta's Share: see there for the arithmetic.
func (d Delta) share(counted bool) Share {
	var rx, engines Volume
	for _, p := range d.Ports {
		rx = rx.plus(Volume{p.RxPackets, p.RxBytes})
	}
	for _, e := range d.Engines {
		engines = engines.plus(Volume{e.Packets, e.Bytes})
	}
	known := d.Known.plus(engines)
	s := Share{Seconds: d.Seconds, Slow: d.Slow, Engines: engines, Flows: d.Known.plus(Volume{
		min(d.Fresh.Packets, less(rx.Packets, known.Packets)),
		min(d.Fresh.Bytes, less(rx.Bytes, known.Bytes)),
	})}
	s.Flowtable = Volume{less(s.Flows.Packets, s.Slow.Packets), less(s.Flows.Bytes, s.Slow.Bytes)}
	s.Accelerated = s.Engines.plus(s.Flowtable)
	return s.withPercent(counted)
}

func (s Share) plus(o Share, counted bool) Share {
	sum := Share{
		Seconds:     s.Seconds + o.Seconds,
		Slow:        s.Slow.plus(o.Slow),
		Engines:     s.Engines.plus(o.Engines),
		Flows:       s.Flows.plus(o.Flows),
		Flowtable:   s.Flowtable.plus(o.Flowtable),
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
