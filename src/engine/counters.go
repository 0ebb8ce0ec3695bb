// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"fastpath/src/bpf"
	"fastpath/src/packet"
	"fastpath/src/state"
)

// Why packets are lost that the program handed to a worker, besides the
// reasons of src/packet.
const (
	lostRing  = "tx-ring-full" // the output took no more
	lostDown  = "link-down"    // the output's link was down
	lostFrame = "no-frame"     // the kernel had no frame to receive into
	lostQueue = "rx-ring-full" // the worker was behind
	lostOther = "not-received" // the kernel couldn't copy the packet
)

// tally adds what the worker's sockets counted to the counters of their ports;
// the worker is about to go.
func (w *worker) tally() {
	for i, s := range w.sockets {
		w.count(i, s.port.lost)
	}
}

// count adds up the losses at socket i into lost, by reason. What was to leave by
// a port and found no room is that port's loss. An unreadable statistic counts as
// nothing: the socket's device is gone.
func (w *worker) count(i int, lost map[string]uint64) {
	s := w.sockets[i]
	if i < len(w.inputs) {
		for r, n := range w.inputs[i].Counters().Dropped {
			add(lost, packet.Reason(r).String(), n)
		}
	}
	if slot := int(s.port.slot); s.sends && slot < len(w.outputs) && w.outputs[slot] != nil {
		c := w.outputs[slot].Counters()
		add(lost, lostRing, c.Full)
		add(lost, lostDown, c.Down)
	}
	if st, err := s.Statistics(); err == nil {
		add(lost, lostFrame, st.Rx_fill_ring_empty_descs)
		add(lost, lostQueue, st.Rx_ring_full)
		add(lost, lostOther, st.Rx_dropped)
	}
}

func add(lost map[string]uint64, reason string, n uint64) {
	if n > 0 {
		lost[reason] += n
	}
}

// counters is what the engine of p did since it was started.
func (c *crew) counters(p *port) (state.EngineCounters, error) {
	out := state.EngineCounters{Passed: map[string]uint64{}, Dropped: map[string]uint64{}}
	counts, err := c.set.Counters(p.slot)
	if err == nil {
		out.Bytes, err = c.set.Bytes(p.slot)
	}
	if err != nil {
		return out, fmt.Errorf("counters of %s: %w", p.link.Name, err)
	}
	for r, n := range counts {
		switch reason := packet.Reason(r); reason {
		case packet.Forward:
			out.Packets = n - min(n, p.base[r])
		case packet.Shed, packet.DropList:
			add(out.Dropped, reason.String(), n-min(n, p.base[r]))
		default:
			add(out.Passed, reason.String(), n-min(n, p.base[r]))
		}
	}
	out.Bytes -= min(out.Bytes, p.baseBytes)
	for reason, n := range p.lost {
		add(out.Dropped, reason, n)
	}
	for _, w := range c.workers {
		for i, s := range w.sockets {
			if s.port == p {
				w.count(i, out.Dropped)
			}
		}
	}
	for reason, n := range out.Dropped {
		switch reason {
		case packet.Shed.String(), packet.DropList.String(), lostRing, lostDown: // not handed over, or another port's packets
		default:
			out.Packets -= min(out.Packets, n)
		}
	}
	return out, nil
}

// begin remembers where the counters of p's slot stand: it may have been
// another port's before.
func (p *port) begin(set *bpf.Set) (err error) {
	if p.base, err = set.Counters(p.slot); err == nil {
		p.baseBytes, err = set.Bytes(p.slot)
	}
	return err
}
