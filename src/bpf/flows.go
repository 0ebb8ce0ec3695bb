// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"errors"
	"fmt"
)

// Engine is who executes a flow's action.
type Engine uint32

// The engines, as enum engine of shared.h.
const (
	EngineXDP   Engine = 1 // the program
	EngineAFXDP Engine = 2 // the worker behind the receive queue's socket
)

// Flow is one direction of a flow.
type Flow struct {
	Index, Gen uint32 // for the worker: its packet.Ref, so Gen is not 0
	Engine     Engine
	Action     any // *packet.Action
}

// spareSlots let flows be exchanged when the map is full, and make waits rare.
const spareSlots = 64

// slots gives out the entries of the maps flows and counts. Each change of a flow
// takes a new one of flows, each new flow one of counts; an old one is used again only after the programs that may still read
// it have ended.
type slots struct {
	free []uint32
	old  []uint32 // since the last wait
}

func newSlots(n uint32) slots {
	s := slots{free: make([]uint32, n)}
	for i := range s.free {
		s.free[i] = n - 1 - uint32(i)
	}
	return s
}

// take returns a free slot; wait is called when only old ones are left.
func (s *slots) take(wait func() error) (uint32, error) {
	if len(s.free) == 0 && len(s.old) > 0 {
		if err := wait(); err != nil {
			return 0, err
		}
		s.free, s.old = s.old, s.free
	}
	last := len(s.free) - 1
	if last < 0 {
		return 0, ErrFull
	}
	slot := s.free[last]
	s.free = s.free[:last]
	return slot, nil
}

// Offsets and size of struct flow (shared.h).
const (
	flowGen     = keySize + 4
	flowCounter = keySize + 8
	flowAction  = keySize + 12
	flowSize    = 192
)

// PutFlow adds the flow of a *packet.Key or exchanges what is done with it. At
// any moment a packet gets the old or the new action, never a mixture.
func (s *Set) PutFlow(key any, f Flow) error {
	k, err := view(key, keySize)
	if err != nil {
		return fmt.Errorf("put flow: %w", err)
	}
	a, err := view(f.Action, actionSize)
	if err != nil {
		return fmt.Errorf("put flow: %w", err)
	}
	gen := f.Gen
	switch {
	case f.Engine == EngineXDP:
		gen = 0 // what the program knows the engine by
	case f.Engine != EngineAFXDP:
		return fmt.Errorf("put flow: there is no engine %d", f.Engine)
	case gen == 0:
		return errors.New("put flow: the worker can't tell a flow of generation 0")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.putFlow(k, f.Index, gen, a); err != nil {
		return fmt.Errorf("put flow: %w", err)
	}
	return nil
}

func (s *Set) putFlow(key []byte, index, gen uint32, action []byte) error {
	at, ok := s.index.find(key, s.hasKey(key))
	if !ok || !at.had && s.flowCount == s.maxFlows {
		return ErrFull
	}
	slot, err := s.slots.take(s.wait)
	if err != nil {
		return err
	}
	var counter uint32
	if at.had {
		counter = *s.flows.word(int(at.flow)*flowSize + flowCounter)
	} else if counter, err = s.takeCounter(); err != nil {
		s.slots.free = append(s.slots.free, slot) // nobody has seen it
		return err
	}
	base := int(slot) * flowSize
	copy(s.flows[base:], key)
	*s.flows.word(base + keySize) = index
	*s.flows.word(base + flowGen) = gen
	*s.flows.word(base + flowCounter) = counter
	copy(s.flows[base+flowAction:], action)
	s.index.put(at, slot) // orders what was written before it
	if at.had {
		s.slots.old = append(s.slots.old, at.flow)
	} else {
		s.flowCount++
	}
	return nil
}

// hasKey says of a flow whether it is key's.
func (s *Set) hasKey(key []byte) func(flow uint32) bool {
	return func(flow uint32) bool { return bytes.Equal(s.keyOf(flow), key) }
}

func (s *Set) keyOf(flow uint32) []byte { return s.flows[int(flow)*flowSize:][:keySize:keySize] }

// DeleteFlow removes the flow of a *packet.Key; that it isn't there is no error.
func (s *Set) DeleteFlow(key any) error {
	k, err := view(key, keySize)
	if err != nil {
		return fmt.Errorf("delete flow: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.index.find(k, s.hasKey(k))
	if !ok || !at.had {
		return nil
	}
	s.index.remove(at)
	s.slots.old = append(s.slots.old, at.flow)
	s.counters.old = append(s.counters.old, *s.flows.word(int(at.flow)*flowSize + flowCounter))
	s.flowCount--
	return nil
}
