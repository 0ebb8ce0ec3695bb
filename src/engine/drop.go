// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"fastpath/src/state"
)

// SetDrop says whose packets are to be dropped from now on: no engine carries
// their connections when it returns.
func (m *Manager) SetDrop(sets []state.DropSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setDrop(sets)
}

func (m *Manager) setDrop(sets []state.DropSet) {
	if m.dropped = sets; m.base != nil {
		m.base.sync.SetDrop(sets)
	}
}

// observeDrop: what the kernel drops that we don't know of (a daemon before us set
// it) isn't all done, so that it is done once more.
func (m *Manager) observeDrop(d *state.DropState) {
	if len(d.Sets) == 0 && m.dropped != nil {
		m.setDrop(nil)
	}
	var known []string
	for _, s := range m.dropped {
		known = append(known, s.Name)
	}
	slices.Sort(known)
	if !slices.Equal(known, d.Sets) {
		d.Chains = nil
	}
}
