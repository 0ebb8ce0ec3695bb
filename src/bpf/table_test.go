// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"fastpath/src/testkit"

	"golang.org/x/sys/unix"
)

// What an old kernel says to a kind of map that it doesn't know.
func TestUnknownMap(t *testing.T) {
	testkit.Need(t, os.Getuid() == 0, "BPF needs root")
	_, err := createTable(mapSpec{name: "new", kind: 4711, keySize: 4, valueSize: 4, maxEntries: 1})
	if !errors.Is(err, ErrNotSupported) || !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "map new") {
		t.Errorf("a map of unknown kind: %v", err)
	}
}

// A section begins with its data; one that the program only reads is frozen.
func TestFill(t *testing.T) {
	testkit.Need(t, os.Getuid() == 0, "BPF needs root")
	for _, m := range []mapSpec{
		{flags: unix.BPF_F_RDONLY_PROG, data: "abc"},
		{flags: unix.BPF_F_RDONLY_PROG},
		{flags: unix.BPF_F_MMAPABLE, data: "abcde\x00g"},
		{flags: unix.BPF_F_MMAPABLE},
	} {
		m.name, m.kind, m.keySize, m.valueSize, m.maxEntries = ".test", unix.BPF_MAP_TYPE_ARRAY, 4, 8, 1
		section, err := createTable(m)
		must(t, err)
		defer unix.Close(int(section))
		must(t, section.fill(m))
		handle := section.handle(t)
		defer handle.Close()
		value, err := handle.LookupBytes(uint32(0))
		must(t, err)
		if want := append([]byte(m.data), make([]byte, 8-len(m.data))...); !bytes.Equal(value, want) {
			t.Errorf("%+v: %q, want %q", m, value, want)
		}
		frozen := m.flags == unix.BPF_F_RDONLY_PROG
		if err := section.put(word(0), value); errors.Is(err, unix.EPERM) != frozen || err != nil != frozen {
			t.Errorf("%+v: changed with %v", m, err)
		}
	}
}
