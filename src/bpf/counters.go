// SPDX-License-Identifier: Apache-2.0

package bpf

import "fmt"

// Sizes and offsets of struct count and struct port_count (shared.h).
const (
	countSize      = 16
	portCountSize  = 192
	portCountBytes = 8 * numReasons
)

// numReasons is how many counters a port has.
const numReasons = 18

// Counters returns the packets that came in by the port in slot, by packet.Reason.
func (s *Set) Counters(slot uint16) ([]uint64, error) {
	total := make([]uint64, numReasons)
	for r := range total {
		n, err := s.portCount(slot, 8*r)
		if err != nil {
			return nil, err
		}
		total[r] = n
	}
	return total, nil
}

// Bytes are those of the packets that came in by the port in slot and were
// forwarded or steered, from the IP header (of a tunnel the inner one) on.
func (s *Set) Bytes(slot uint16) (uint64, error) { return s.portCount(slot, portCountBytes) }

func (s *Set) portCount(slot uint16, off int) (total uint64, err error) {
	if slot >= MaxPorts {
		return 0, fmt.Errorf("read counters: slot %d: there are %d", slot, MaxPorts)
	}
	for cpu := range s.cpus {
		total += s.portCounts.counter((cpu*MaxPorts+int(slot))*portCountSize + off)
	}
	return total, nil
}

// FlowCounters calls f with the key of every flow (the bytes of a packet.Key, for
// the time of the call) and the packets and bytes, from the IP header (of a
// tunnel the inner one) on, that the program forwarded or steered since the flow
// was put. They go on when its action is exchanged. f must not call the Set.
func (s *Set) FlowCounters(f func(key []byte, packets, bytes uint64)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.all(func(flow uint32) {
		counter := *s.flows.word(int(flow)*flowSize + flowCounter)
		var packets, bytes uint64
		for cpu := range s.cpus {
			at := s.countAt(cpu, counter)
			packets += s.counts.counter(at)
			bytes += s.counts.counter(at + 8)
		}
		f(s.keyOf(flow), packets, bytes)
	})
	return nil
}

// countAt is where a CPU counts.
func (s *Set) countAt(cpu int, counter uint32) int {
	return (cpu*int(s.maxFlows+spareSlots) + int(counter)) * countSize
}

// takeCounter returns a counter that is 0 on every CPU and that no program
// still counts with.
func (s *Set) takeCounter() (uint32, error) {
	counter, err := s.counters.take(s.wait)
	if err != nil {
		return 0, err
	}
	for cpu := range s.cpus {
		clear(s.counts[s.countAt(cpu, counter):][:countSize])
	}
	return counter, nil
}
