// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
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
	Index, Gen uint32 // for the worker: its packet.Ref
	Engine     Engine
	Action     any // *packet.Action
}

// spareSlots let flows be exchanged when the map is full, and make waits rare.
const spareSlots = 64

// slots gives out the entries of the map flows. Each change of a flow takes a
// new one; an old one is used again only after the programs that may still read
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

// PutFlow adds the flow of a *packet.Key or exchanges what is done with it. At
// any moment a packet gets the old or the new action, never a mixture.
func (s *Set) PutFlow(key any, f Flow) error {
	k, err := encode(key, keySize)
	if err != nil {
		return fmt.Errorf("put flow: %w", err)
	}
	a, err := encode(f.Action, actionSize)
	if err != nil {
		return fmt.Errorf("put flow: %w", err)
	}
	if f.Engine != EngineXDP && f.Engine != EngineAFXDP {
		return fmt.Errorf("put flow: there is no engine %d", f.Engine)
	}
	ne := binary.NativeEndian
	v := append(make([]byte, 0, keySize+12+actionSize), k...) // struct flow
	v = ne.AppendUint32(v, f.Index)
	v = ne.AppendUint32(v, f.Gen)
	v = ne.AppendUint32(v, uint32(f.Engine))
	v = append(v, a...)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.putFlow(k, v); err != nil {
		return fmt.Errorf("put flow: %w", err)
	}
	return nil
}

func (s *Set) putFlow(key, flow []byte) error {
	old, had, err := s.lookup(key)
	if err != nil {
		return err
	}
	slot, err := s.flows.take(s.wait)
	if err != nil {
		return err
	}
	if err = s.obj.Flows.Put(slot, flow); err == nil {
		err = s.obj.FlowIndex.Put(key, slot)
	}
	if err != nil {
		s.flows.free = append(s.flows.free, slot) // nobody has seen it
		if errors.Is(err, errTooMany) {
			return ErrFull
		}
		return err
	}
	if had {
		s.flows.old = append(s.flows.old, old)
	}
	return nil
}

// DeleteFlow removes the flow of a *packet.Key; that it isn't there is no error.
func (s *Set) DeleteFlow(key any) error {
	k, err := encode(key, keySize)
	if err != nil {
		return fmt.Errorf("delete flow: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, had, err := s.lookup(k)
	if err == nil && had {
		err = s.obj.FlowIndex.Delete(k)
	}
	if err != nil {
		return fmt.Errorf("delete flow: %w", err)
	}
	if had {
		s.flows.old = append(s.flows.old, slot)
	}
	return nil
}

func (s *Set) lookup(key []byte) (slot uint32, had bool, err error) {
	err = s.obj.FlowIndex.Lookup(key, &slot)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, false, nil
	}
	return slot, err == nil, err
}
