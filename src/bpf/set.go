// SPDX-License-Identifier: Apache-2.0

// Package bpf is the XDP program of the engines: its objects, loading,
// attaching, and the maps by which it is told what to do.
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
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
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
	keySize    = 52
	actionSize = 76
	portSize   = 16
	portSlot   = 12 // where the slot is
)

// Options are for Load.
type Options struct {
	MaxFlows uint32 // about 300 bytes each, reserved at once
}

// Set is the loaded program and its maps. Its methods may be called from any goroutine.
type Set struct {
	obj    fastpathObjects
	queues memory // struct queue, by slot and queue
	tick   memory // one uint32

	mu    sync.Mutex
	links map[int]link.Link // by ifindex; held, or the GC would close and detach them
	flows slots
	grace *ebpf.Map // an array of maps; see wait
}

// Load loads the program into the kernel; it does nothing there until it is
// attached. Errors are ErrPermission, ErrNotSupported or the kernel's.
func Load(o Options) (*Set, error) {
	if o.MaxFlows == 0 {
		return nil, errors.New("load XDP program: no room for any flow asked for")
	}
	spec, err := loadFastpath()
	if err != nil {
		return nil, err
	}
	if err := configure(spec, o.MaxFlows); err != nil {
		return nil, fmt.Errorf("load XDP program: %w", err)
	}
	s := &Set{links: make(map[int]link.Link), flows: newSlots(o.MaxFlows + spareSlots)}
	if err := s.load(spec); err != nil {
		s.Close()
		return nil, fmt.Errorf("load XDP program: %w", explain(err))
	}
	return s, nil
}

func configure(spec *ebpf.CollectionSpec, maxFlows uint32) error {
	spec.Maps[fastpathMapFlowIndex].MaxEntries = maxFlows
	spec.Maps[fastpathMapFlows].MaxEntries = maxFlows + spareSlots
	hz, err := measureHZ()
	if err != nil {
		return err
	}
	for name, limit := range map[string]time.Duration{
		fastpathVarTickLimit:  tickLimit,
		fastpathVarQueueLimit: queueLimit,
	} {
		if err := spec.Variables[name].Set(uint32(limit * time.Duration(hz) / time.Second)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) load(spec *ebpf.CollectionSpec) error {
	if err := spec.LoadAndAssign(&s.obj, nil); err != nil {
		return err
	}
	var err error
	if s.queues, err = mapMemory(s.obj.Queues); err != nil {
		return err
	}
	if s.tick, err = mapMemory(s.obj.Tick); err != nil {
		return err
	}
	inner := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	s.grace, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "grace", Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: inner,
	})
	return err
}

// Close detaches the program from all ports and frees the maps. Queues must not be used any more.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for ifindex, l := range s.links {
		errs = append(errs, l.Close())
		delete(s.links, ifindex)
	}
	errs = append(errs, s.queues.unmap(), s.tick.unmap())
	if s.grace != nil {
		errs = append(errs, s.grace.Close())
	}
	return errors.Join(append(errs, s.obj.Close())...)
}

// wait returns when every run of the program that was under way has ended: the
// kernel waits for that when a map in a map is exchanged (since 4.19, so that
// user space can rely on it; maybe_wait_bpf_programs in kernel/bpf/syscall.c).
func (s *Set) wait() error {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("wait for the XDP program: %w", err)
	}
	defer m.Close()
	if err := s.grace.Put(uint32(0), m); err != nil {
		return fmt.Errorf("wait for the XDP program: %w", err)
	}
	return nil
}

// encode gives v's bytes as the program sees them.
func encode(v any, size int) ([]byte, error) {
	b, err := binary.Append(make([]byte, 0, size), binary.NativeEndian, v)
	if err != nil {
		return nil, err
	}
	if len(b) != size {
		return nil, fmt.Errorf("%T has %d bytes, the XDP program wants %d", v, len(b), size)
	}
	return b, nil
}

// measureHZ is the kernel's CONFIG_HZ: the coarse clock advances once a tick.
func measureHZ() (uint32, error) {
	var res unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &res); err != nil {
		return 0, fmt.Errorf("measure HZ: %w", err)
	}
	ns := res.Nano()
	if ns <= 0 || ns > int64(time.Second) {
		return 0, fmt.Errorf("measure HZ: the clock's resolution is %d ns", ns)
	}
	return uint32((int64(time.Second) + ns/2) / ns), nil
}
