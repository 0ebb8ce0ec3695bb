// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// PutPort makes frames that come in by ifindex be looked at, by a *packet.Port.
// Before that, and for the moment of an exchange, the program passes everything
// up there. A slot has one port: the one that was in it before goes.
func (s *Set) PutPort(ifindex int, port any) error {
	b, err := view(port, portSize)
	if err != nil {
		return fmt.Errorf("put port %d: %w", ifindex, err)
	}
	slot := binary.NativeEndian.Uint16(b[portSlot:])
	if slot >= MaxPorts || ifindex <= 0 {
		return fmt.Errorf("put port %d: slot %d: there are %d", ifindex, slot, MaxPorts)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := controlPorts + int(slot)*controlPort
	old := *s.control.word(at)
	atomic.StoreUint32(s.control.word(at), 0)
	if gone := s.clearPort(ifindex); gone || old != 0 {
		if err := s.wait(); err != nil { // a program may be reading it
			return fmt.Errorf("put port %d: %w", ifindex, err)
		}
	}
	copy(s.control[at+4:], b)
	atomic.StoreUint32(s.control.word(at), uint32(ifindex))
	return nil
}

// DeletePort makes everything that comes in by ifindex go up; that it isn't
// there is no error. When it returns, no packet of the port is on its way
// through the program.
func (s *Set) DeletePort(ifindex int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearPort(ifindex)
	if err := s.wait(); err != nil {
		return fmt.Errorf("delete port %d: %w", ifindex, err)
	}
	return nil
}

// clearPort says whether the port was there.
func (s *Set) clearPort(ifindex int) (was bool) {
	for slot := range MaxPorts {
		word := s.control.word(controlPorts + slot*controlPort)
		if *word == uint32(ifindex) {
			atomic.StoreUint32(word, 0)
			was = true
		}
	}
	return was
}

// PutDevice makes slot an output, by the device ifindex, for both engines; the
// kernel takes it out when the device goes. It accepts any device, but with engine
// xdp one whose driver can't transmit XDP frames drops them all: the caller has
// to know. Engine xdp also drops, and tells nobody, frames longer than the device's
// MTU + 18 (xdp_ok_fwd_dev in include/linux/netdevice.h: Ethernet and one tag), so
// an action's MTU + L2Len may not be above that.
func (s *Set) PutDevice(slot uint16, ifindex int) error {
	if err := s.maps[mapDevices].put(word(uint32(slot)), word(uint32(ifindex))); err != nil {
		return fmt.Errorf("put output device %d in slot %d: %w", ifindex, slot, err)
	}
	return nil
}

// DeleteDevice makes slot no output any more: packets of flows that leave by it
// go up. That it isn't one is no error.
func (s *Set) DeleteDevice(slot uint16) error {
	if err := s.maps[mapDevices].remove(word(uint32(slot))); err != nil {
		return fmt.Errorf("delete output slot %d: %w", slot, err)
	}
	return nil
}

// PutSocket hands the packets of a port's receive queue to the AF_XDP socket fd,
// which must be bound to just this queue. The kernel removes it when the socket is closed.
//
// ring is the number of slots of its receive ring: frames that come when the
// worker is that many behind are dropped.
func (s *Set) PutSocket(slot uint16, queue, fd, ring int) error {
	i, err := queueIndex(slot, queue)
	if err == nil {
		atomic.StoreUint32(s.queues.word(int(i)*queueSize+queueRing), uint32(ring))
		err = s.maps[mapSockets].put(word(i), word(uint32(fd)))
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
		err = s.maps[mapSockets].remove(word(i))
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
