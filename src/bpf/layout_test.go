// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"fastpath/src/packet"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// field is where something lies in a struct.
type field struct{ offset, size uint32 }

// goFields lists t's fields, structs within taken apart, padding left out.
func goFields(t reflect.Type, base uint32) (all []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := base + uint32(f.Offset)
		switch {
		case f.Name == "_":
		case f.Type.Kind() == reflect.Struct:
			all = append(all, goFields(f.Type, at)...)
		default:
			all = append(all, field{at, uint32(f.Type.Size())})
		}
	}
	return all
}

func cFields(t *testing.T, s *btf.Struct, base uint32) (all []field) {
	for _, m := range s.Members {
		at := base + m.Offset.Bytes()
		if inner, ok := btf.UnderlyingType(m.Type).(*btf.Struct); ok {
			all = append(all, cFields(t, inner, at)...)
			continue
		}
		size, err := btf.Sizeof(m.Type)
		must(t, err)
		if !strings.HasPrefix(m.Name, "pad") {
			all = append(all, field{at, uint32(size)})
		}
	}
	return all
}

// What Go writes into the maps lies where the program reads it, in either byte order.
func TestLayout(t *testing.T) {
	for _, object := range []string{"fastpath_bpfel.o", "fastpath_bpfeb.o"} {
		spec, err := ebpf.LoadCollectionSpec(object)
		must(t, err)
		testFlowLayout(t, spec)
		testQueueLayout(t, spec)
	}
	if off, _ := reflect.TypeFor[packet.Port]().FieldByName("Slot"); off.Offset != portSlot {
		t.Errorf("slot is at %d, not %d", off.Offset, portSlot)
	}
	if numReasons != packet.NumReasons {
		t.Errorf("%d reasons here, %d in packet", numReasons, packet.NumReasons)
	}
}

func testFlowLayout(t *testing.T, spec *ebpf.CollectionSpec) {
	type flow struct { // as PutFlow puts it together
		Key        packet.Key
		Index, Gen uint32
		Engine     Engine
		Action     packet.Action
	}
	tests := []struct {
		name string
		typ  reflect.Type
		size int
	}{
		{"key", reflect.TypeFor[packet.Key](), keySize},
		{"action", reflect.TypeFor[packet.Action](), actionSize},
		{"port", reflect.TypeFor[packet.Port](), portSize},
		{"flow", reflect.TypeFor[flow](), keySize + 12 + actionSize},
	}
	for _, tt := range tests {
		var s *btf.Struct
		must(t, spec.Types.TypeByName(tt.name, &s))
		if int(s.Size) != tt.size || int(tt.typ.Size()) != tt.size {
			t.Errorf("struct %s has %d bytes in C, %d in Go; want %d", tt.name, s.Size, tt.typ.Size(), tt.size)
		}
		if c, g := cFields(t, s, 0), goFields(tt.typ, 0); !slices.Equal(c, g) {
			t.Errorf("struct %s: fields in C %v, in Go %v", tt.name, c, g)
		}
	}
}

func testQueueLayout(t *testing.T, spec *ebpf.CollectionSpec) {
	var q *btf.Struct
	must(t, spec.Types.TypeByName("queue", &q))
	offsets := map[string]uint32{}
	for _, m := range q.Members {
		offsets[m.Name] = m.Offset.Bytes()
	}
	if q.Size != queueSize || offsets["given"] != queueGiven || offsets["taken"] != queueTaken {
		t.Errorf("struct queue: %d bytes, %v", q.Size, offsets)
	}
}

// The map sizes that shared.h and this package both know.
func TestMapSizes(t *testing.T) {
	spec, err := loadFastpath()
	must(t, err)
	for name, want := range map[string]uint32{
		fastpathMapPorts:    MaxPorts,
		fastpathMapDevices:  MaxPorts,
		fastpathMapSockets:  MaxPorts * MaxQueues,
		fastpathMapQueues:   MaxPorts * MaxQueues,
		fastpathMapCounters: MaxPorts * numReasons,
	} {
		if got := spec.Maps[name].MaxEntries; got != want {
			t.Errorf("map %s has %d entries, want %d", name, got, want)
		}
	}
}
