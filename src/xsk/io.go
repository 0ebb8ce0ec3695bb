// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FD is the socket's descriptor: for poll (readable: packets in the rx ring)
// and for the XSKMAP.
func (s *Socket) FD() int { return s.fd }

// Bytes is the UMEM's memory.
func (s *Socket) Bytes() []byte { return s.umem.mem }

// Fill hands empty frames to the kernel and returns how many fitted.
func (s *Socket) Fill(addrs []uint64) int { return s.fill.push(addrs) }

// Receive takes up to len(descs) received packets.
func (s *Socket) Receive(descs []unix.XDPDesc) int { return s.rx.pop(descs) }

// Transmit queues packets and returns how many fitted. They leave with Kick.
func (s *Socket) Transmit(descs []unix.XDPDesc) int { return s.tx.push(descs) }

// Unsent is the number of queued packets that the kernel has not looked at yet.
func (s *Socket) Unsent() int { return s.tx.pending() }

// Complete takes up to len(addrs) frames that the kernel is done with. An
// address is that of the descriptor, not of the frame's first byte.
func (s *Socket) Complete(addrs []uint64) int { return s.sent.pop(addrs) }

// Kick makes the kernel send what is queued, unless it does so by itself. One
// call sends a limited number (32 in copy mode). EAGAIN: some are left, or the
// device is full; EBUSY: the device dropped one (it completes all the same);
// ENETDOWN: the link is down; ENXIO: the device is gone. It returns a bare
// errno, so that the packet loop does not allocate. It does not block, so the
// scheduler isn't told of the call.
func (s *Socket) Kick() error {
	if !s.tx.needWakeup() {
		return nil
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// WakeRx makes a driver in zero-copy mode look at the fill ring, if it waits for that.
func (s *Socket) WakeRx() {
	if s.fill.needWakeup() {
		// The errno would say what the next poll says too.
		_, _, _ = unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	}
}

// Statistics are the kernel's counters of the socket (drops, invalid
// descriptors, empty fill ring).
func (s *Socket) Statistics() (unix.XDPStatistics, error) {
	var st unix.XDPStatistics
	size := uint32(unsafe.Sizeof(st))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_XDP, unix.XDP_STATISTICS,
		uintptr(unsafe.Pointer(&st)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return st, fmt.Errorf("AF_XDP on %s: XDP_STATISTICS: %w", s.name, errno)
	}
	return st, nil
}
