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
		case f.Name == "_" || f.Name == "pad":
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

// testLayout: what Go writes into the maps lies where the program reads it.
func testLayout(t *testing.T, spec *ebpf.CollectionSpec) {
	testFlowLayout(t, spec)
	testOffsets(t, spec)
	for name, size := range map[string]uint32{
		"control": controlPorts + MaxPorts*controlPort, "secret": keySize,
		"tick_limit": 4, "queue_limit": 4, "bucket_mask": 4, "max_counts": 4,
	} {
		if v := spec.Variables[name]; v == nil || v.Size() != size {
			t.Errorf("variable %s is %v, want %d bytes", name, v, size)
		}
	}
	if at := spec.Variables["control"].Offset; at != 0 {
		t.Errorf("control is at %d of its section", at)
	}
}

func TestPacketLayout(t *testing.T) {
	if off, _ := reflect.TypeFor[packet.Port]().FieldByName("Slot"); off.Offset != portSlot {
		t.Errorf("slot is at %d, not %d", off.Offset, portSlot)
	}
	if numReasons != packet.NumReasons {
		t.Errorf("%d reasons here, %d in packet", numReasons, packet.NumReasons)
	}
}

func testFlowLayout(t *testing.T, spec *ebpf.CollectionSpec) {
	type flow struct { // as PutFlow puts it together
		Key                 packet.Key
		Index, Gen, Counter uint32
		Action              packet.Action
		_                   [8]byte
	}
	tests := []struct {
		name string
		typ  reflect.Type
		size int
	}{
		{"key", reflect.TypeFor[packet.Key](), keySize},
		{"action", reflect.TypeFor[packet.Action](), actionSize},
		{"port", reflect.TypeFor[packet.Port](), portSize},
		{"flow", reflect.TypeFor[flow](), flowSize},
		{"endpoints", reflect.TypeFor[endpoints](), 32},
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

// testOffsets: what memory.go and its neighbours say of the structs in shared memory.
func testOffsets(t *testing.T, spec *ebpf.CollectionSpec) {
	tests := []struct {
		name    string
		size    int // 0: not known in Go
		offsets map[string]uint32
	}{
		{"queue", queueSize, map[string]uint32{"given": queueGiven, "ring": queueRing, "taken": queueTaken}},
		{"flow", flowSize, map[string]uint32{"index": keySize, "gen": flowGen, "counter": flowCounter, "action": flowAction}},
		{"key", keySize, map[string]uint32{"family": keyFamily}},
		{"bucket", bucketSize, nil},
		{"count", countSize, map[string]uint32{"packets": 0, "bytes": 8}},
		{"port_count", portCountSize, map[string]uint32{"packets": 0, "bytes": portCountBytes}},
		{"control", controlPorts + MaxPorts*controlPort, map[string]uint32{"tick": controlTick, "half4": controlHalf4, "half6": controlHalf6, "ports": controlPorts}},
	}
	for _, tt := range tests {
		var s *btf.Struct
		must(t, spec.Types.TypeByName(tt.name, &s))
		if int(s.Size) != tt.size {
			t.Errorf("struct %s has %d bytes, not %d", tt.name, s.Size, tt.size)
		}
		for _, m := range s.Members {
			if want, ok := tt.offsets[m.Name]; ok && m.Offset.Bytes() != want {
				t.Errorf("struct %s: %s is at %d, not %d", tt.name, m.Name, m.Offset.Bytes(), want)
			}
		}
	}
}

// The map sizes that shared.h and this package both know.
func TestMapSizes(t *testing.T) {
	for i, want := range map[int]uint32{
		mapDevices: MaxPorts,
		mapSockets: MaxPorts * MaxQueues,
		mapQueues:  MaxPorts * MaxQueues,
		mapTunnels: MaxTunnels,
	} {
		if m := fastpath.maps[i]; m.maxEntries != want {
			t.Errorf("map %s has %d entries, want %d", m.name, m.maxEntries, want)
		}
	}
}
