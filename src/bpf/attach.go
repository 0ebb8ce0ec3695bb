// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Mode is where in the receive path the program runs.
type Mode uint32

// The modes.
const (
	Native  = Mode(unix.XDP_FLAGS_DRV_MODE) // in the driver
	Generic = Mode(unix.XDP_FLAGS_SKB_MODE) // in the stack; costs the port its GRO
)

// Attach attaches the program to a device, by a bpf_link and to nothing else: it
// is refused, and nothing changes, if any program is attached there. Errors are
// *ForeignError, ErrAttached, ErrMode, ErrTooBig, ErrPermission, ErrNotSupported
// or the kernel's (ENODEV: the device is gone).
func (s *Set) Attach(ifindex int, mode Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.links[ifindex]; ok {
		return fmt.Errorf("attach to ifindex %d: %w", ifindex, ErrAttached)
	}
	link, err := s.program.attach(ifindex, mode)
	if err != nil {
		return fmt.Errorf("attach to ifindex %d: %w", ifindex, explainAttach(ifindex, err))
	}
	s.links[ifindex] = link
	return nil
}

// Detach takes the program off a device; that it isn't attached, or the device
// is gone, is no error.
func (s *Set) Detach(ifindex int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	link, ok := s.links[ifindex]
	if !ok {
		return nil
	}
	delete(s.links, ifindex)
	if err := unix.Close(link); err != nil {
		return fmt.Errorf("detach from ifindex %d: %w", ifindex, err)
	}
	return nil
}

// explainAttach tells what dev_xdp_attach and the drivers mean (net/core/dev.c).
func explainAttach(ifindex int, err error) error {
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST): // same mode, other mode
		return &ForeignError{Ifindex: ifindex, ID: attachedID(ifindex)}
	case errors.Is(err, unix.EINVAL) && !exists(ifindex): // what the kernel says then
		return fmt.Errorf("the device is gone: %w", unix.ENODEV)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: %w", ErrMode, err)
	case errors.Is(err, unix.ERANGE):
		return fmt.Errorf("%w: %w", ErrTooBig, err)
	}
	return explain(err)
}

func attachedID(ifindex int) uint32 {
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil || l.Attrs().Xdp == nil {
		return 0
	}
	return l.Attrs().Xdp.ProgId
}

func exists(ifindex int) bool {
	_, err := netlink.LinkByIndex(ifindex)
	return err == nil
}
