// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"fastpath/src/bpf"
	"fastpath/src/flow"
	"fastpath/src/flowsync"
	"fastpath/src/packet"
	"fastpath/src/state"
)

// sink is where flowsync puts flows: the program's maps and, for the workers,
// the flow table. It has a lock of its own, because flowsync calls it while the
// Manager waits for flowsync.
type sink struct {
	set   *bpf.Set
	table *flow.Table
	woken chan struct{} // a flow was put: the ticker must run

	mu    sync.Mutex
	watch map[packet.Key]uint16 // output slot of each flow, while an output has to be proved; else nil
}

var _ flowsync.Sink = (*sink)(nil)

// Put adds a flow or exchanges its action. The worker's table comes first, so
// that the program never hands out a Ref that isn't there.
func (s *sink) Put(in flowsync.Port, k packet.Key, a packet.Action) error {
	f := bpf.Flow{Engine: bpf.EngineXDP, Action: &a}
	fresh := false
	if in.Engine == state.EngineAFXDP {
		_, had := s.table.Find(k)
		ref, err := s.table.Put(k, a)
		if err != nil {
			return full(err)
		}
		fresh = !had
		f.Engine, f.Index, f.Gen = bpf.EngineAFXDP, ref.Index, ref.Gen
	}
	if err := s.set.PutFlow(&k, f); err != nil {
		if fresh {
			s.table.Delete(k)
		}
		return full(err)
	}
	s.note(k, a.Out)
	select {
	case s.woken <- struct{}{}:
	default:
	}
	return nil
}

// full gives the two tables' answers the one name that flowsync knows.
func full(err error) error {
	if errors.Is(err, bpf.ErrFull) || errors.Is(err, flow.ErrFull) {
		return fmt.Errorf("%w: %w", flowsync.ErrFull, err)
	}
	return err
}

// Delete removes a flow from the program first, for the same reason.
func (s *sink) Delete(k packet.Key) error {
	err := s.set.DeleteFlow(&k)
	s.table.Delete(k)
	s.forget(k)
	return err
}

// PutTunnel tells the program a DS-Lite tunnel.
func (s *sink) PutTunnel(id uint16, local, remote netip.Addr) error {
	return s.set.PutTunnel(id, local.As16(), remote.As16())
}

// DeleteTunnel takes it away.
func (s *sink) DeleteTunnel(id uint16) error { return s.set.DeleteTunnel(id) }

// Counters reads the program's counters: what it forwarded or handed to a worker.
func (s *sink) Counters(f func(k packet.Key, packets, bytes uint64)) error {
	return s.set.FlowCounters(func(key []byte, packets, bytes uint64) { f(packet.LoadKey(key), packets, bytes) })
}

// note remembers where a flow leaves, as long as somebody has to know.
func (s *sink) note(k packet.Key, out uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch != nil {
		s.watch[k] = out
	}
}

func (s *sink) forget(k packet.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watch, k)
}
