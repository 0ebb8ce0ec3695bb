// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// What a caller decides on. Every error of this package that comes from the
// kernel also wraps its errno.
var (
	// ErrNotSupported: the kernel was built without AF_XDP (CONFIG_XDP_SOCKETS),
	// or it is older than 5.4 and has no need_wakeup.
	ErrNotSupported = errors.New("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)")
	// ErrPermission: CAP_NET_RAW (socket) or CAP_NET_ADMIN (UMEM) is missing.
	ErrPermission = errors.New("AF_XDP needs the capabilities NET_RAW and NET_ADMIN")
	// ErrMemoryLock: the UMEM is above the limit of locked memory.
	ErrMemoryLock = errors.New("the UMEM is above the limit of locked memory (ulimit -l); raise it, give CAP_IPC_LOCK or use fewer frames")
	// ErrQueueBusy: another AF_XDP socket is bound to the queue, and still was
	// after all retries.
	ErrQueueBusy = errors.New("another AF_XDP socket is bound to this queue")
	// ErrClosed: the socket or UMEM was closed before.
	ErrClosed = errors.New("already closed")
)

// classify adds the sentinel that goes with an errno of AF_XDP's set-up calls.
func classify(err error) error {
	for errno, sentinel := range map[unix.Errno]error{
		unix.EAFNOSUPPORT: ErrNotSupported,
		unix.EPERM:        ErrPermission,
		unix.ENOBUFS:      ErrMemoryLock,
		unix.EBUSY:        ErrQueueBusy,
	} {
		if errors.Is(err, errno) {
			return fmt.Errorf("%w: %w", sentinel, err)
		}
	}
	return err
}
