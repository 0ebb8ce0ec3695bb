// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// errTooMany is a hash map's answer when it is full.
var errTooMany = unix.E2BIG

// PutPort makes frames that come in by ifindex be looked at, by a *packet.Port.
// Before that the program passes everything up there.
func (s *Set) PutPort(ifindex int, port any) error {
	b, err := encode(port, portSize)
	if err != nil {
		return fmt.Errorf("put port %d: %w", ifindex, err)
	}
	if slot := binary.NativeEndian.Uint16(b[portSlot:]); slot >= MaxPorts {
		return fmt.Errorf("put port %d: slot %d: there are %d", ifindex, slot, MaxPorts)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = s.obj.Ports.Put(uint32(ifindex), b); err == nil {
		err = s.wait() // the old element must not be used again under a running program
	}
	if err != nil {
		return fmt.Errorf("put port %d: %w", ifindex, err)
	}
	return nil
}

// DeletePort makes everything that comes in by ifindex go up; that it isn't
// there is no error. When it returns, no packet of the port is on its way
// through the program.
func (s *Set) DeletePort(ifindex int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := missingOK(s.obj.Ports.Delete(uint32(ifindex)))
	if err == nil {
		err = s.wait()
	}
	if err != nil {
		return fmt.Errorf("delete port %d: %w", ifindex, err)
	}
	return nil
}

// PutDevice makes slot an output, by the device ifindex, for both engines; the
// kernel takes it out when the device goes. It accepts any device, but with engine
// xdp one whose driver can't transmit XDP frames drops them all: the caller has
// to know. Engine xdp also drops, and tells nobody, frames longer than the device's
// MTU + 18 (xdp_ok_fwd_dev in include/linux/netdevice.h: Ethernet and one tag), so
// an action's MTU + L2Len may not be above that.
func (s *Set) PutDevice(slot uint16, ifindex int) error {
	if err := s.obj.Devices.Put(uint32(slot), uint32(ifindex)); err != nil {
		return fmt.Errorf("put output device %d in slot %d: %w", ifindex, slot, err)
	}
	return nil
}

// DeleteDevice makes slot no output any more: packets of flows that leave by it
// go up. That it isn't one is no error.
func (s *Set) DeleteDevice(slot uint16) error {
	if err := missingOK(s.obj.Devices.Delete(uint32(slot))); err != nil {
		return fmt.Errorf("delete output slot %d: %w", slot, err)
	}
	return nil
}

// PutSocket hands the packets of a port's receive queue to the AF_XDP socket fd,
// which must be bound to just this queue. The kernel removes it when the socket is closed.
func (s *Set) PutSocket(slot uint16, queue, fd int) error {
	i, err := queueIndex(slot, queue)
	if err == nil {
		err = s.obj.Sockets.Put(i, uint32(fd))
	}
	if err != nil {
		return fmt.Errorf("put socket of slot %d, receive queue %d: %w", slot, queue, err)
	}
	return nil
}

// DeleteSocket lets the queue's packets go up; that there is no socket is no error.
func (s *Set) DeleteSocket(slot uint16, queue int) error {
	i, err := queueIndex(slot, queue)
	if err == nil {
		err = missingOK(s.obj.Sockets.Delete(i))
	}
	if err != nil {
		return fmt.Errorf("delete socket of slot %d, receive queue %d: %w", slot, queue, err)
	}
	return nil
}

// queueIndex is the place of a queue in the maps sockets and queues.
func queueIndex(slot uint16, queue int) (uint32, error) {
	if slot >= MaxPorts || queue < 0 || queue >= MaxQueues {
		return 0, fmt.Errorf("out of range: %d ports and %d receive queues of each", MaxPorts, MaxQueues)
	}
	return uint32(slot)*MaxQueues + uint32(queue), nil
}

// numReasons is how many counters a port has.
const numReasons = 16

// Counters returns the packets that came in by the port in slot, by packet.Reason.
func (s *Set) Counters(slot uint16) ([]uint64, error) {
	total := make([]uint64, numReasons)
	var perCPU []uint64
	for r := range total {
		if err := s.obj.Counters.Lookup(uint32(slot)*numReasons+uint32(r), &perCPU); err != nil {
			return nil, fmt.Errorf("read counters of slot %d: %w", slot, err)
		}
		for _, n := range perCPU {
			total[r] += n
		}
	}
	return total, nil
}

func missingOK(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}
