// SPDX-License-Identifier: Apache-2.0

package status

import "fastpath/src/state"

func (v Volume) plus(o Volume) Volume { return Volume{v.Packets + o.Packets, v.Bytes + o.Bytes} }

// minus is v - o, at least 0 of each.
func (v Volume) minus(o Volume) Volume {
	return Volume{less(v.Packets, o.Packets), less(v.Bytes, o.Bytes)}
}

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

func engineGrown(before, now state.EngineCounters) state.EngineCounters {
	return state.EngineCounters{
		Packets: grown(before.Packets, now.Packets),
		Bytes:   grown(before.Bytes, now.Bytes),
		Passed:  eachGrown(before.Passed, now.Passed),
		Dropped: eachGrown(before.Dropped, now.Dropped),
	}
}

func eachGrown(before, now map[string]uint64) map[string]uint64 {
	out := make(map[string]uint64, len(now))
	for reason, n := range now {
		out[reason] = grown(before[reason], n)
	}
	return out
}

// sum adds by reason, into a new map that is never nil.
func sum(a, b map[string]uint64) map[string]uint64 {
	out := make(map[string]uint64, max(len(a), len(b)))
	for _, m := range []map[string]uint64{a, b} {
		for reason, n := range m {
			out[reason] += n
		}
	}
	return out
}

func total(m map[string]uint64) (n uint64) {
	for _, v := range m {
		n += v
	}
	return n
}
