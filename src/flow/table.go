// SPDX-License-Identifier: Apache-2.0

// Package flow is the table of accelerated flows: tuple → Action, one writer,
// many readers.
package flow

import (
	"errors"
	"sync"
	"sync/atomic"

	"fastpath/src/packet"
)

// ErrFull: the table has no room for another flow.
var ErrFull = errors.New("flow table is full")

// Table holds up to a fixed number of flows.
//
// Readers come with the Ref that the XDP program put in front of a frame, which
// may be as old as the receive ring is long. An entry is written before it is
// published and never after, so no reader sees half of one; a reader holds on
// to the entry itself, so the garbage collector is what waits for it; and a Ref
// whose flow is gone doesn't match the generation of the slot's next one.
type Table struct {
	slots []atomic.Pointer[entry]

	mu   sync.Mutex // the writer's, and Find's
	refs map[packet.Key]packet.Ref
	free []uint32
	gen  uint32 // of the flow that was added last
}

type entry struct {
	gen    uint32
	action packet.Action
}

// New makes a table for max flows.
func New(max int) *Table {
	t := &Table{slots: make([]atomic.Pointer[entry], max), refs: make(map[packet.Key]packet.Ref)}
	for i := max; i > 0; i-- {
		t.free = append(t.free, uint32(i-1))
	}
	return t
}

// At returns the action of a flow, or nil if the flow is gone. It may be called
// at any time, allocates nothing and never waits. What it points to must not be changed.
func (t *Table) At(r packet.Ref) *packet.Action {
	if r.Index >= uint32(len(t.slots)) {
		return nil
	}
	e := t.slots[r.Index].Load()
	if e == nil || e.gen != r.Gen {
		return nil
	}
	return &e.action
}

// Put adds a flow or gives it another action; its Ref stays the same then.
func (t *Table) Put(k packet.Key, a packet.Action) (packet.Ref, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.refs[k]
	if !ok {
		last := len(t.free) - 1
		if last < 0 {
			return packet.Ref{}, ErrFull
		}
		if t.gen++; t.gen == 0 {
			t.gen = 1 // no flow has the zero Ref
		}
		r = packet.Ref{Index: t.free[last], Gen: t.gen}
		t.free = t.free[:last]
		t.refs[k] = r
	}
	t.slots[r.Index].Store(&entry{gen: r.Gen, action: a})
	return r, nil
}

// Delete removes a flow and says whether it was there.
func (t *Table) Delete(k packet.Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.refs[k]
	if ok {
		delete(t.refs, k)
		t.slots[r.Index].Store(nil)
		t.free = append(t.free, r.Index)
	}
	return ok
}

// Find returns a flow's Ref. It takes the writer's lock: not for the packet loop.
func (t *Table) Find(k packet.Key) (packet.Ref, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.refs[k]
	return r, ok
}

// Len is the number of flows.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.refs)
}
