// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"fmt"
	"net/netip"
)

// tunnelEnds names a tunnel.
type tunnelEnds struct{ local, remote netip.Addr }

// tunnels gives tunnels their ids. The Sink knows one before a flow uses it,
// and until none does.
type tunnels struct {
	ids map[tunnelEnds]uint16
	put map[uint16]bool // ids that the Sink knows
}

func newTunnels() *tunnels {
	return &tunnels{ids: map[tunnelEnds]uint16{}, put: map[uint16]bool{}}
}

// id is the tunnel's, a new one if it has none.
func (t *tunnels) id(local, remote netip.Addr) uint16 {
	k := tunnelEnds{local, remote}
	if id, ok := t.ids[k]; ok {
		return id
	}
	used := map[uint16]bool{}
	for _, id := range t.ids {
		used[id] = true
	}
	id := uint16(1)
	for used[id] {
		id++
	}
	t.ids[k] = id
	return id
}

// tell makes the Sink know the tunnel of a wire with that id.
func (t *tunnels) tell(s Sink, e *end) error {
	id := e.wire.Tunnel
	if id == 0 || t.put[id] {
		return nil
	}
	if err := s.PutTunnel(id, e.wire.Local, e.wire.Remote); err != nil {
		return fmt.Errorf("tunnel to %v: %w", e.wire.Remote, err)
	}
	t.put[id] = true
	return nil
}

// keep forgets the tunnels that no flow uses.
func (t *tunnels) keep(s Sink, used map[uint16]bool) error {
	for k, id := range t.ids {
		if used[id] {
			continue
		}
		if t.put[id] {
			if err := s.DeleteTunnel(id); err != nil {
				return fmt.Errorf("tunnel to %v: %w", k.remote, err)
			}
		}
		delete(t.put, id)
		delete(t.ids, k)
	}
	return nil
}
