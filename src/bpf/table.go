// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// mapSpec describes a map. A section with the program's variables is an array
// map with one entry, which begins with data.
type mapSpec struct {
	name                                        string
	kind, keySize, valueSize, maxEntries, flags uint32
	data                                        string
	inner                                       *mapSpec // of a map of maps: those that it will hold, but for maxEntries
}

// table is a map's file descriptor.
type table int

// createTable makes a map. Sizes and flags are right, so a kernel that finds
// them invalid is too old.
func createTable(m mapSpec) (table, error) {
	var inner table
	if m.inner != nil {
		var err error
		if inner, err = createTable(*m.inner); err != nil {
			return -1, err
		}
		defer unix.Close(int(inner))
	}
	var a attr
	for i, n := range []uint32{m.kind, m.keySize, m.valueSize, m.maxEntries, m.flags, uint32(inner)} {
		a.u32(4*i, n)
	}
	a.name(28, m.name)
	fd, err := a.call(unix.BPF_MAP_CREATE)
	switch {
	case errors.Is(err, unix.EINVAL):
		err = fmt.Errorf("%w: %w", ErrNotSupported, err)
	case errors.Is(err, unix.EPERM):
		err = fmt.Errorf("%w (before Linux 5.11 also if RLIMIT_MEMLOCK is too low)", err)
	}
	if err != nil {
		return -1, fmt.Errorf("create map %s: %w", m.name, err)
	}
	return table(fd), nil
}

// put adds or exchanges an entry.
func (t table) put(key, value []byte) error {
	var a attr
	a.u32(0, uint32(t))
	a.pointer(8, key)
	a.pointer(16, value)
	_, err := a.call(unix.BPF_MAP_UPDATE_ELEM)
	return err
}

// remove removes an entry; that it isn't there is no error.
func (t table) remove(key []byte) error {
	var a attr
	a.u32(0, uint32(t))
	a.pointer(8, key)
	_, err := a.call(unix.BPF_MAP_DELETE_ELEM)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// fill puts a section's first values. What the program can only read nobody
// changes any more: then the verifier takes it for constants.
func (t table) fill(m mapSpec) error {
	if m.data != "" {
		value := make([]byte, m.valueSize)
		copy(value, m.data)
		if err := t.put(word(0), value); err != nil {
			return fmt.Errorf("fill map %s: %w", m.name, err)
		}
	}
	if m.flags&unix.BPF_F_RDONLY_PROG == 0 {
		return nil
	}
	var a attr
	a.u32(0, uint32(t))
	if _, err := a.call(unix.BPF_MAP_FREEZE); err != nil {
		return fmt.Errorf("freeze map %s: %w", m.name, err)
	}
	return nil
}

// word is a key or value of 32 bits.
func word(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
