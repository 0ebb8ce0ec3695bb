// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"testing"
	"time"

	"fastpath/src/packet"
)

// fakeSink is a Sink that remembers. Its limit is in directions; 0: none.
type fakeSink struct {
	t     testing.TB
	mu    sync.Mutex
	limit int
	have  map[packet.Key]entry
	tun   map[uint16]tunnelEnds
	mtu   map[uint16]int     // entries by MTU
	put   func(k packet.Key) // called before each Put, under mu
	ops   []string           // "put", "delete", in order
}

type entry struct {
	in             Port
	act            packet.Action
	packets, bytes uint64
}

func newSink(t testing.TB) *fakeSink {
	return &fakeSink{t: t, have: map[packet.Key]entry{}, tun: map[uint16]tunnelEnds{}, mtu: map[uint16]int{}}
}

func (s *fakeSink) Put(in Port, k packet.Key, a packet.Action) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.put != nil {
		s.put(k)
	}
	e, known := s.have[k]
	if !known && s.limit > 0 && len(s.have) >= s.limit {
		return fmt.Errorf("port %s: %w", in.Name, ErrFull)
	}
	if _, ok := s.tun[k.Tunnel]; !ok && k.Tunnel != 0 {
		s.t.Errorf("a flow of tunnel %d before the tunnel", k.Tunnel)
	}
	if e.act.MTU != a.MTU {
		s.mtu[e.act.MTU]--
		s.mtu[a.MTU]++
	}
	e.in, e.act = in, a
	s.have[k] = e
	s.ops = append(s.ops, "put")
	return nil
}

func (s *fakeSink) Delete(k packet.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.have[k]; ok {
		s.mtu[e.act.MTU]--
		delete(s.have, k)
	}
	s.ops = append(s.ops, "delete")
	return nil
}

func (s *fakeSink) PutTunnel(id uint16, local, remote netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tun[id] = tunnelEnds{local, remote}
	return nil
}

func (s *fakeSink) DeleteTunnel(id uint16) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.have {
		if k.Tunnel == id {
			s.t.Errorf("tunnel %d goes before its flow %v", id, k)
		}
	}
	delete(s.tun, id)
	return nil
}

func (s *fakeSink) Counters(f func(k packet.Key, packets, bytes uint64)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.have {
		f(k, e.packets, e.bytes)
	}
	return nil
}

func (s *fakeSink) all() map[packet.Key]entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.have)
}

func (s *fakeSink) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.have)
}

func (s *fakeSink) mtus(mtu uint16) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mtu[mtu]
}

// count adds n packets to every flow.
func (s *fakeSink) count(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.have {
		e.packets, e.bytes = e.packets+n, e.bytes+100*n
		s.have[k] = e
	}
}

// eventually polls; a busy machine may take its time.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
