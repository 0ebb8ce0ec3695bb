// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options describes a socket.
type Options struct {
	Device  string // the device's name, for error messages
	Ifindex uint32
	Queue   uint32 // the device's rx queue; its tx queue of the same number sends
	Rx      uint32 // slots of the fill and of the rx ring: a power of two
	Tx      uint32 // slots of the tx and of the completion ring: a power of two
}

// Socket is one AF_XDP socket, bound to a device's queue.
type Socket struct {
	umem    *UMEM
	name    string // "eth0 queue 1"
	fd      int
	closed  atomic.Bool
	mapped  [][]byte // the four rings
	fill    producer[uint64]
	tx      producer[unix.XDPDesc]
	rx      consumer[unix.XDPDesc]
	sent    consumer[uint64]
	binding unix.SockaddrXDP
}

// bindPatience is how long Open goes on when the queue is busy: the kernel frees
// the queue of a process that died some 50-80 ms later.
const bindPatience = 2 * time.Second

// Open creates a socket on u, puts the frames of fill into the fill ring, which
// some drivers want before bind, and binds. On error the frames are the
// caller's again. The process must be in the device's network namespace.
func (u *UMEM) Open(o Options, fill []uint64) (*Socket, error) {
	s := &Socket{umem: u, name: fmt.Sprintf("%s queue %d", o.Device, o.Queue), fd: -1}
	if err := u.open(s, o, fill); err != nil {
		return nil, fmt.Errorf("AF_XDP on %s: %w", s.name, errors.Join(err, s.release()))
	}
	return s, nil
}

func (u *UMEM) open(s *Socket, o Options, fill []uint64) (err error) {
	if !powerOfTwo(o.Rx) || !powerOfTwo(o.Tx) {
		return fmt.Errorf("ring sizes %d and %d are not powers of two", o.Rx, o.Tx)
	}
	s.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", classify(err))
	}
	// From here to the end of bind no other socket of the UMEM may come or go.
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mem == nil {
		return ErrClosed
	}
	s.binding = unix.SockaddrXDP{Ifindex: o.Ifindex, QueueID: o.Queue}
	if len(u.sockets) > 0 {
		// Mode and need_wakeup are the first socket's.
		s.binding.Flags = unix.XDP_SHARED_UMEM
		s.binding.SharedUmemFD = uint32(u.sockets[0].fd)
	} else {
		s.binding.Flags = unix.XDP_USE_NEED_WAKEUP | unix.XDP_COPY
		if u.ZeroCopy {
			s.binding.Flags = unix.XDP_USE_NEED_WAKEUP | unix.XDP_ZEROCOPY
		}
		if err := u.register(s.fd); err != nil {
			return err
		}
	}
	if err := s.mapRings(o); err != nil {
		return err
	}
	// In copy mode packets under way count against the send buffer, whose default
	// is far below a ring full. The kernel doubles the value.
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, int(o.Tx*u.FrameSize)); err != nil {
		return fmt.Errorf("send buffer: %w", classify(err))
	}
	if n := s.fill.push(fill); n < len(fill) {
		return fmt.Errorf("%d frames don't fit into a fill ring of %d", len(fill), o.Rx)
	}
	if err := s.bind(); err != nil {
		return err
	}
	u.sockets = append(u.sockets, s)
	return nil
}

// bind retries while the queue is busy.
func (s *Socket) bind() error {
	deadline := time.Now().Add(bindPatience)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		err := unix.Bind(s.fd, &s.binding)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("bind: %w", classify(err))
		}
		time.Sleep(wait)
	}
}

// mapRings makes and maps the four rings.
func (s *Socket) mapRings(o Options) error {
	for _, r := range []struct {
		option int
		size   uint32
	}{
		{unix.XDP_UMEM_FILL_RING, o.Rx}, {unix.XDP_RX_RING, o.Rx},
		{unix.XDP_TX_RING, o.Tx}, {unix.XDP_UMEM_COMPLETION_RING, o.Tx},
	} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, r.option, int(r.size)); err != nil {
			return fmt.Errorf("ring of %d slots (XDP option %d): %w", r.size, r.option, err)
		}
	}
	off, err := offsets(s.fd)
	if err != nil {
		return err
	}
	const address, desc = unsafe.Sizeof(uint64(0)), unsafe.Sizeof(unix.XDPDesc{})
	for _, r := range []struct {
		page int64
		size uint64
	}{
		{unix.XDP_UMEM_PGOFF_FILL_RING, off.Fr.Desc + uint64(o.Rx)*uint64(address)},
		{unix.XDP_PGOFF_RX_RING, off.Rx.Desc + uint64(o.Rx)*uint64(desc)},
		{unix.XDP_PGOFF_TX_RING, off.Tx.Desc + uint64(o.Tx)*uint64(desc)},
		{unix.XDP_UMEM_PGOFF_COMPLETION_RING, off.Cr.Desc + uint64(o.Tx)*uint64(address)},
	} {
		mem, err := unix.Mmap(s.fd, r.page, int(r.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
		if err != nil {
			return fmt.Errorf("map the ring at %#x: %w", r.page, err)
		}
		s.mapped = append(s.mapped, mem)
	}
	s.fill = newProducer[uint64](s.mapped[0], off.Fr, o.Rx)
	s.rx = newConsumer[unix.XDPDesc](s.mapped[1], off.Rx, o.Rx)
	s.tx = newProducer[unix.XDPDesc](s.mapped[2], off.Tx, o.Tx)
	s.sent = newConsumer[uint64](s.mapped[3], off.Cr, o.Tx)
	return nil
}

// offsets asks where indexes and slots lie in the mappings.
func offsets(fd int) (unix.XDPMmapOffsets, error) {
	var off unix.XDPMmapOffsets
	size := uint32(unsafe.Sizeof(off))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&off)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return off, fmt.Errorf("XDP_MMAP_OFFSETS: %w", errno)
	}
	if uintptr(size) < unsafe.Sizeof(off) { // before 5.4: no flags
		return off, fmt.Errorf("XDP_MMAP_OFFSETS has no flags: %w", ErrNotSupported)
	}
	return off, nil
}

// Close gives everything back to the kernel. Frames that were in the socket's
// rings are the caller's again. Nobody may be using the socket meanwhile; whoever
// does afterwards finds its rings empty and without room, and Kick says EBADF.
func (s *Socket) Close() error {
	if s.closed.Swap(true) {
		return fmt.Errorf("AF_XDP on %s: %w", s.name, ErrClosed)
	}
	s.umem.forget(s)
	if err := s.release(); err != nil {
		return fmt.Errorf("AF_XDP on %s: close: %w", s.name, err)
	}
	return nil
}

func (s *Socket) release() error {
	var errs []error
	for _, mem := range s.mapped {
		errs = append(errs, unix.Munmap(mem))
	}
	s.mapped = nil
	s.fill, s.rx = noProducer[uint64](), noConsumer[unix.XDPDesc]()
	s.tx, s.sent = noProducer[unix.XDPDesc](), noConsumer[uint64]()
	if s.fd >= 0 {
		errs = append(errs, unix.Close(s.fd))
	}
	s.fd = -1
	return errors.Join(errs...)
}

func powerOfTwo(n uint32) bool { return n != 0 && n&(n-1) == 0 }
