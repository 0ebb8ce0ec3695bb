// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// What callers decide on.
var (
	// ErrPermission: CAP_BPF, CAP_PERFMON (without it the verifier forbids to
	// subtract pointers) and CAP_NET_ADMIN (or CAP_SYS_ADMIN) are missing.
	ErrPermission = errors.New("no permission for BPF: CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are needed")
	// ErrNotSupported: the kernel has no BPF or is too old for what we need.
	ErrNotSupported = errors.New("the kernel has no BPF, or lacks what the XDP program needs")
	// ErrMode: the port can't run the program in the wanted mode.
	ErrMode = errors.New("the port's driver can't run XDP programs in this mode")
	// ErrTooBig: the port's MTU is too big for XDP.
	ErrTooBig = errors.New("the port's MTU is too big for XDP")
	// ErrFull: there is no room for another flow.
	ErrFull = errors.New("the XDP program has no room for another flow")
	// ErrAttached: our own program is attached to the port already.
	ErrAttached = errors.New("the XDP program is attached already")
)

// ForeignError says that another program is attached to the port. It was not touched.
type ForeignError struct {
	Ifindex int
	ID      uint32 // of the program; 0 if it couldn't be found out
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("ifindex %d: XDP program %d of somebody else is attached; it stays", e.Ifindex, e.ID)
}

// errNoJIT is ENOTSUPP (include/linux/errno.h), which isn't for user space. It comes
// if the kernel only runs compiled programs and has no compiler for this CPU.
const errNoJIT = unix.Errno(524)

// explain gives an error of loading its sentinel.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES) && !(isVerifier(err) && mayPerfmon()):
		return fmt.Errorf("%w: %w", ErrPermission, err)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, errNoJIT):
		return fmt.Errorf("%w: %w", ErrNotSupported, err)
	}
	return err
}

// isVerifier: the verifier also says EACCES when it refuses a program.
func isVerifier(err error) bool {
	var v *verifierError
	return errors.As(err, &v)
}

// mayPerfmon: the thread has CAP_PERFMON, or what stood for it before Linux 5.8.
func mayPerfmon() bool {
	var have [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &have[0]); err != nil {
		return true // then the verifier's own words are all there is
	}
	return have[unix.CAP_PERFMON/32].Effective&(1<<(unix.CAP_PERFMON%32)) != 0 ||
		have[unix.CAP_SYS_ADMIN/32].Effective&(1<<(unix.CAP_SYS_ADMIN%32)) != 0
}
