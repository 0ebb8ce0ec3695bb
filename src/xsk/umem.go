// SPDX-License-Identifier: Apache-2.0

// Package xsk is AF_XDP on bare system calls: a UMEM, and sockets that share
// it. See Documentation/networking/af_xdp.rst in the kernel.
//
//	UMEM    one mapping, cut into frames of equal size; a frame is named by its
//	        address, the offset of its first byte
//	Socket  one queue of one device, with four rings:
//	        fill        we → kernel  empty frames to receive into
//	        rx          kernel → we  received packets (address, length)
//	        tx          we → kernel  packets to send
//	        completion  kernel → we  frames that were sent
//
// A frame is in one ring, or with the caller; the package doesn't track which.
// One goroutine at a time may use {fill, rx}, and one {tx, completion}; the two
// halves are independent. Nothing here allocates or blocks once a socket is open.
package xsk

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory describes a UMEM.
type Memory struct {
	Frames uint32 // number of frames
	// FrameSize is the bytes per frame: a power of two, 2048 up to the page size.
	// The kernel drops received packets longer than FrameSize - 256 - Headroom.
	FrameSize uint32
	// Headroom is kept free before each received packet, in bytes, besides
	// the kernel's own XDP_PACKET_HEADROOM of 256. In zero copy some drivers want
	// it: virtio-net needs 12 for its header, or bind says EINVAL.
	Headroom uint32
	// ZeroCopy binds every socket of the UMEM in zero-copy mode, and fails
	// where the driver can't. Otherwise every socket copies: the kernel has
	// one mode per UMEM.
	ZeroCopy bool
}

// UMEM is packet memory that several sockets share.
type UMEM struct {
	Memory
	mem []byte

	mu      sync.Mutex
	sockets []*Socket // bound; a new one borrows the UMEM from any of them
}

// NewUMEM maps the memory. The kernel first hears of it when a socket is opened.
func NewUMEM(m Memory) (*UMEM, error) {
	page := uint32(unix.Getpagesize())
	if m.FrameSize < 2048 || m.FrameSize > page || m.FrameSize&(m.FrameSize-1) != 0 {
		return nil, fmt.Errorf("UMEM: frame size %d is not a power of two between 2048 and %d", m.FrameSize, page)
	}
	if m.Frames == 0 || uint64(m.Frames)*uint64(m.FrameSize) > 1<<30 {
		return nil, fmt.Errorf("UMEM: %d frames of %d bytes: want 1 byte to 1 GiB", m.Frames, m.FrameSize)
	}
	if m.Headroom >= m.FrameSize-unix.XDP_PACKET_HEADROOM {
		return nil, fmt.Errorf("UMEM: headroom %d leaves no room in a frame of %d", m.Headroom, m.FrameSize)
	}
	mem, err := unix.Mmap(-1, 0, int(m.Frames*m.FrameSize), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("UMEM: map %d frames of %d bytes: %w", m.Frames, m.FrameSize, err)
	}
	return &UMEM{Memory: m, mem: mem}, nil
}

// Bytes is the whole memory; a descriptor's packet is Bytes()[Addr:Addr+Len].
// It must not be used after Close.
func (u *UMEM) Bytes() []byte { return u.mem }

// Close unmaps the memory. The sockets must have been closed before.
func (u *UMEM) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.sockets); n > 0 {
		return fmt.Errorf("UMEM: %d sockets are still open", n)
	}
	if u.mem == nil {
		return fmt.Errorf("UMEM: %w", ErrClosed)
	}
	mem := u.mem
	u.mem = nil
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("UMEM: unmap: %w", err)
	}
	return nil
}

// register makes fd the first socket of the UMEM.
func (u *UMEM) register(fd int) error {
	reg := unix.XDPUmemReg{
		Addr:     uint64(uintptr(unsafe.Pointer(&u.mem[0]))),
		Len:      uint64(len(u.mem)),
		Size:     u.FrameSize,
		Headroom: u.Headroom,
	}
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&reg)), unsafe.Sizeof(reg), 0)
	if errno != 0 {
		return fmt.Errorf("register a UMEM of %d bytes: %w", len(u.mem), classify(errno))
	}
	return nil
}

// forget takes a closed socket off the list.
func (u *UMEM) forget(s *Socket) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.sockets {
		if u.sockets[i] == s {
			u.sockets = append(u.sockets[:i], u.sockets[i+1:]...)
			return
		}
	}
}
