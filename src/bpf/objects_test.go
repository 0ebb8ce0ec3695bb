// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fastpath/src/testkit"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// What is committed is what compile.go makes of the sources, and it is loaded as
// cilium/ebpf loads the compiled object.
func TestObjects(t *testing.T) {
	_, err := exec.LookPath("clang-14")
	testkit.Need(t, err == nil, "clang-14 is not installed")
	dir := t.TempDir()
	out, err := exec.Command("go", "run", "compile.go", "-out", dir, "-objects", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, base := range []string{"fastpath_bpfel", "fastpath_bpfeb"} {
		made, err := os.ReadFile(filepath.Join(dir, base+".go"))
		must(t, err)
		ours, err := os.ReadFile(base + ".go")
		must(t, err)
		if !bytes.Equal(made, ours) {
			t.Errorf("%s.go is not what the sources make: go generate ./src/bpf", base)
		}
		spec, err := ebpf.LoadCollectionSpec(filepath.Join(dir, base+".o"))
		must(t, err)
		t.Run(base, func(t *testing.T) {
			testLayout(t, spec)
			if spec.ByteOrder == binary.ByteOrder(binary.LittleEndian) == littleEndian {
				testLoader(t, spec)
			}
		})
	}
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// testLoader compares what the kernel has of our loader with what it has of cilium/ebpf's.
func testLoader(t *testing.T, spec *ebpf.CollectionSpec) {
	s := loadSet(t, 100)
	specs, err := s.specs()
	must(t, err)
	for _, m := range specs {
		spec.Maps[m.name].MaxEntries = m.maxEntries
	}
	for _, v := range spec.Variables {
		if v.Constant() {
			v.Value = []byte(specs[mapRodata].data[v.Offset:][:v.Size()])
		}
	}
	peer, err := ebpf.NewCollection(spec)
	must(t, err)
	defer peer.Close()
	if len(peer.Maps) != numMaps {
		t.Errorf("%d maps, want %d", numMaps, len(peer.Maps))
	}
	for i, m := range specs {
		compareMaps(t, m.name, s.maps[i].handle(t), peer.Maps[m.name])
	}
	prog := s.program.handle(t)
	defer prog.Close()
	ours, err := prog.Info()
	must(t, err)
	theirs, err := peer.Programs["fastpath"].Info()
	must(t, err)
	if ours.Tag != theirs.Tag || ours.Type != theirs.Type || ours.Name != theirs.Name {
		t.Errorf("the program is %v %q with tag %s, want %v %q with %s",
			ours.Type, ours.Name, ours.Tag, theirs.Type, theirs.Name, theirs.Tag)
	}
}

func compareMaps(t *testing.T, name string, ours, theirs *ebpf.Map) {
	defer ours.Close()
	const mmapable = unix.BPF_F_MMAPABLE // they also set it where nobody needs it
	o, err := ours.Info()
	must(t, err)
	p, err := theirs.Info()
	must(t, err)
	if o.Type != p.Type || o.KeySize != p.KeySize || o.ValueSize != p.ValueSize || o.MaxEntries != p.MaxEntries ||
		o.Flags|mmapable != p.Flags|mmapable || o.Frozen() != p.Frozen() || o.Name != name {
		t.Errorf("map %s is %+v, want %+v", name, o, p)
	}
	if name[0] != '.' {
		return
	}
	a, err := ours.LookupBytes(uint32(0))
	must(t, err)
	b, err := theirs.LookupBytes(uint32(0))
	must(t, err)
	if !bytes.Equal(a, b) {
		t.Errorf("section %s is %x, want %x", name, a, b)
	}
}
