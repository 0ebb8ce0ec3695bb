// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"slices"
)

// MaxTunnels is how many tunnels there may be (shared.h).
const MaxTunnels = 16

// endpoints is struct endpoints: the addresses in the order of a packet from afar.
type endpoints struct{ Remote, Local [16]byte }

func (e endpoints) bytes() []byte { return slices.Concat(e.Remote[:], e.Local[:]) }

// PutTunnel makes id (above 0) the packet.Key.Tunnel of IPv4 packets that come
// in IPv6 packets from remote to local, and of no others. Before that they go up.
func (s *Set) PutTunnel(id uint16, local, remote [16]byte) error {
	if id == 0 {
		return errors.New("put tunnel: 0 means that there is none")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := endpoints{Remote: remote, Local: local}
	if have, ok := s.tunnels[id]; ok && have == e {
		return nil
	}
	for other, have := range s.tunnels { // ids and addresses belong to each other
		if other != id && have != e {
			continue
		}
		if err := s.deleteTunnel(other); err != nil {
			return fmt.Errorf("put tunnel %d: %w", id, err)
		}
	}
	if err := s.maps[mapTunnels].put(e.bytes(), word(uint32(id))); err != nil {
		return fmt.Errorf("put tunnel %d: %w", id, err)
	}
	s.tunnels[id] = e
	return nil
}

// DeleteTunnel makes a tunnel's packets go up; that it isn't there is no error.
// When it returns, no packet is on its way through the program with this id.
func (s *Set) DeleteTunnel(id uint16) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.deleteTunnel(id); err != nil {
		return fmt.Errorf("delete tunnel %d: %w", id, err)
	}
	return nil
}

// deleteTunnel waits, because the map's element may be used again at once.
func (s *Set) deleteTunnel(id uint16) error {
	e, ok := s.tunnels[id]
	if !ok {
		return nil
	}
	if err := s.maps[mapTunnels].remove(e.bytes()); err != nil {
		return err
	}
	delete(s.tunnels, id)
	return s.wait()
}
