// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"fastpath/src/bpf"
	"fastpath/src/state"
)

// SetDrop says whose packets are to be dropped from now on. The program drops them
// that would go up, and no engine carries their connections when it returns. After
// an error the program may still have the list of before.
func (m *Manager) SetDrop(sets []state.DropSet) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.setDrop(sets)
}

func (m *Manager) setDrop(sets []state.DropSet) error {
	if m.base != nil {
		err := setDrop(m.base.set, sets)
		m.base.sync.SetDrop(sets)
		if err != nil {
			return err
		}
	}
	m.dropped = sets
	return nil
}

func setDrop(set *bpf.Set, sets []state.DropSet) error {
	var v4 [][2][4]byte
	var v6 [][2][16]byte
	for _, s := range sets { // one of a family
		if s.V4 != nil {
			v4 = s.V4
		} else {
			v6 = s.V6
		}
	}
	return set.SetDrop(v4, v6)
}

// observeDrop: what the kernel drops that we don't know of (a daemon before us set
// it) isn't all done, so that it is done once more.
func (m *Manager) observeDrop(d *state.DropState) error {
	var err error
	if len(d.Sets) == 0 && m.dropped != nil {
		err = m.setDrop(nil)
	}
	var known []string
	for _, s := range m.dropped {
		known = append(known, s.Name)
	}
	slices.Sort(known)
	if !slices.Equal(known, d.Sets) {
		d.Chains = nil
	}
	return err
}
