// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// How long a worker sleeps at most: idleWait when there is nothing to do; from
// soon on, doubling up to idleWait, while something is left to be retried.
const (
	soon     = time.Millisecond
	idleWait = 2 * time.Second
)

// poller waits for a queue, or to be woken.
type poller struct {
	fds      [2]unix.PollFd
	timeout  unix.Timespec
	patience time.Duration
}

func (p *poller) open(fd int) error {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	p.fds = [2]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(event), Events: unix.POLLIN}}
	p.patience = soon
	return nil
}

// busy resets the wait for things to be retried.
func (p *poller) busy() { p.patience = soon }

// wait returns when the queue has packets, after wake, or after a while: soon
// if there is something to retry. The kernel writes the rest of the time back
// into timeout, so that is set each time.
func (p *poller) wait(retry bool) {
	d := idleWait
	if retry {
		d = p.patience
		p.patience = min(2*p.patience, idleWait)
	}
	p.timeout = unix.NsecToTimespec(int64(d))
	n, err := unix.Ppoll(p.fds[:], &p.timeout, nil)
	if err == unix.EINTR || err == nil && n == 0 {
		return
	}
	if err != nil || p.fds[0].Revents&^unix.POLLIN != 0 {
		// The socket is broken and poll returns at once: don't spin until
		// somebody stops us.
		p.timeout = unix.NsecToTimespec(int64(100 * time.Millisecond))
		_, _ = unix.Ppoll(p.fds[1:], &p.timeout, nil)
	}
}

// wake ends a wait, and every later one. It may be called from anywhere.
func (p *poller) wake() {
	// An eventfd takes 1 unless it is about to overflow, and then it is readable anyway.
	_, _ = unix.Write(int(p.fds[1].Fd), []byte{1, 1, 1, 1, 1, 1, 1, 0})
}

func (p *poller) close() { unix.Close(int(p.fds[1].Fd)) }
