// SPDX-License-Identifier: Apache-2.0

// Package bpf is the XDP program of the engines: its source, what is compiled of
// it, loading, attaching, and the maps by which it is told what to do.
//
// The program (fastpath.c) forwards frames of known flows and passes everything
// else up. It is attached by a bpf_link that only this process holds, so it goes
// when the process does, however that ends.
//
// A port has a slot below MaxPorts, given out by the caller. Keys, actions and
// ports are the fixed-size structs of src/packet; this package only checks their
// sizes.
package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Limits of the program (shared.h).
const (
	MaxPorts  = 32 // slots
	MaxQueues = 16 // receive queues of a port; what comes by others goes up
)

// How long the program waits before it passes everything up.
const (
	tickLimit  = 5 * time.Second        // engine xdp: for Tick
	queueLimit = 200 * time.Millisecond // engine afxdp: for Queue.Answer
)

// Sizes in bytes of what the caller passes.
const (
	keySize    = 56
	actionSize = 116
	portSize   = 16
	portSlot   = 12 // where the slot is
)

// Options are for Load.
type Options struct {
	MaxFlows uint32 // 224 to 256 bytes each, and 16 for each CPU, reserved at once
}

// Set is the loaded program and its maps. Its methods may be called from any goroutine.
type Set struct {
	program    program
	maps       [numMaps]table
	opened     []int  // every file descriptor but links
	cpus       int    // that the kernel may ever have
	control    memory // struct control
	queues     memory // struct queue, by slot and queue
	flows      memory // struct flow, by slots
	counts     memory // struct count, by CPU and counters
	portCounts memory // struct port_count, by CPU and slot

	mu        sync.Mutex
	links     map[int]int // file descriptors by ifindex; only we hold them
	maxFlows  uint32
	flowCount uint32
	index     index
	slots     slots // free entries of flows
	counters  slots // free entries of counts
	tunnels   map[uint16]endpoints
	grace     table // an array of maps; see wait
}

// Load loads the program into the kernel; it does nothing there until it is
// attached. Errors are ErrPermission, ErrNotSupported or the kernel's.
func Load(o Options) (*Set, error) {
	if o.MaxFlows == 0 {
		return nil, errors.New("load XDP program: no room for any flow asked for")
	}
	s := &Set{
		maxFlows: o.MaxFlows,
		links:    make(map[int]int), tunnels: make(map[uint16]endpoints),
		index: index{mask: bucketCount(o.MaxFlows) - 1},
		slots: newSlots(o.MaxFlows + spareSlots), counters: newSlots(o.MaxFlows + spareSlots),
	}
	if err := s.load(); err != nil {
		s.Close()
		return nil, fmt.Errorf("load XDP program: %w", explain(err))
	}
	return s, nil
}

func (s *Set) load() (err error) {
	if s.cpus, err = possibleCPUs(); err != nil {
		return err
	}
	if s.index.secret, err = newSecret(); err != nil {
		return err
	}
	specs, err := s.specs()
	if err != nil {
		return err
	}
	for i, spec := range specs {
		if s.maps[i], err = s.create(spec); err != nil {
			return err
		}
	}
	if s.program, err = loadProgram(fastpath.license, fastpath.link(s.maps), 0); err != nil {
		return err
	}
	s.opened = append(s.opened, int(s.program))
	s.grace, err = s.create(mapSpec{
		name: "grace", kind: unix.BPF_MAP_TYPE_ARRAY_OF_MAPS, keySize: 4, valueSize: 4, maxEntries: 1, inner: &graceSpec,
	})
	if err != nil {
		return err
	}
	return s.share(specs)
}

// specs are the maps, with what the program doesn't know: sizes, the clock's rate, the secret.
func (s *Set) specs() (specs [numMaps]mapSpec, err error) {
	specs = fastpath.maps
	n := s.maxFlows + spareSlots
	specs[mapBuckets].maxEntries = s.index.mask + 1
	specs[mapFlows].maxEntries = n
	specs[mapCounts].maxEntries = uint32(s.cpus) * n
	specs[mapPortCounts].maxEntries = uint32(s.cpus) * MaxPorts
	hz, err := measureHZ()
	if err != nil {
		return specs, err
	}
	jiffies := func(d time.Duration) uint32 { return uint32(d * time.Duration(hz) / time.Second) }
	data := make([]byte, specs[mapRodata].valueSize)
	copy(data, specs[mapRodata].data)
	set := func(at int, n uint32) { binary.NativeEndian.PutUint32(data[at:], n) }
	set(varTickLimit, jiffies(tickLimit))
	set(varQueueLimit, jiffies(queueLimit))
	set(varBucketMask, s.index.mask)
	set(varMaxCounts, n)
	for i, n := range s.index.secret {
		set(varSecret+4*i, n)
	}
	specs[mapRodata].data = string(data)
	return specs, nil
}

// create makes a map that Close closes.
func (s *Set) create(spec mapSpec) (table, error) {
	t, err := createTable(spec)
	if err != nil {
		return t, err
	}
	s.opened = append(s.opened, int(t))
	return t, t.fill(spec)
}

// share maps into memory what the program and we write.
func (s *Set) share(specs [numMaps]mapSpec) (err error) {
	for _, m := range []struct {
		memory *memory
		of     int
	}{
		{&s.control, mapBss}, {&s.queues, mapQueues}, {&s.flows, mapFlows},
		{&s.counts, mapCounts}, {&s.portCounts, mapPortCounts}, {&s.index.buckets, mapBuckets},
	} {
		if *m.memory, err = mapMemory(s.maps[m.of], specs[m.of]); err != nil {
			return err
		}
	}
	return nil
}

// Close detaches the program from all ports and frees the maps. The Set and its
// Queues must not be used any more: their memory is gone.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for ifindex, link := range s.links {
		errs = append(errs, unix.Close(link))
		delete(s.links, ifindex)
	}
	for _, m := range []*memory{&s.control, &s.queues, &s.flows, &s.counts, &s.portCounts, &s.index.buckets} {
		errs = append(errs, m.unmap())
	}
	for _, fd := range s.opened {
		errs = append(errs, unix.Close(fd))
	}
	s.opened = nil
	return errors.Join(errs...)
}

// graceSpec is what wait puts into grace.
var graceSpec = mapSpec{name: "grace", kind: unix.BPF_MAP_TYPE_ARRAY, keySize: 4, valueSize: 4, maxEntries: 1}

// wait returns when every run of the program that was under way has ended: the
// kernel waits for that when a map in a map is exchanged (since 4.19, so that
// user space can rely on it; maybe_wait_bpf_programs in kernel/bpf/syscall.c).
func (s *Set) wait() error {
	t, err := createTable(graceSpec)
	if err != nil {
		return fmt.Errorf("wait for the XDP program: %w", err)
	}
	defer unix.Close(int(t))
	if err := s.grace.put(word(0), word(uint32(t))); err != nil {
		return fmt.Errorf("wait for the XDP program: %w", err)
	}
	return nil
}

// view gives the bytes of the struct that v points to, as they lie in memory: the
// program has the same layout.
func view(v any, size int) ([]byte, error) {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return nil, fmt.Errorf("%T is no struct of the XDP program", v)
	}
	if have := int(p.Type().Elem().Size()); have != size {
		return nil, fmt.Errorf("%T has %d bytes, the XDP program wants %d", v, have, size)
	}
	return unsafe.Slice((*byte)(p.UnsafePointer()), size), nil
}
