// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How long a worker sleeps at most: idleWait when there is nothing to do; from
// soon on, doubling up to idleWait, while something is left to be retried.
const (
	soon     = time.Millisecond
	idleWait = 2 * time.Second
)

// A burst has a price of its own: the worker's wake-up, and that of whoever takes
// the first packets it sends. So while packets come, the worker doesn't wait for
// the next one but naps, and takes what has come meanwhile.
const (
	napTime = 90 * time.Microsecond // what it may add to a packet's latency
	napFew  = 4                     // where fewer come at a time it waits: that takes no time

	// A worker that has always more to do rests all the same, as the kernel gives
	// real-time threads 95 % of a CPU at most, and takes the rest in one piece.
	unrested = time.Millisecond

	// linger is how long a worker that comes first waits, and keeps its goroutine's
	// place; then it is idle and steps back. It is less than the 10 ms after which
	// Go's runtime would take the place.
	linger = 8 * time.Millisecond
)

// poller rests: until one of some queues has packets, until it is woken, or for
// a nap.
type poller struct {
	rank     rank
	fds      []unix.PollFd // the last one is for wake
	timeout  unix.Timespec
	patience time.Duration
	rested   time.Time // when the last nap or wait was over
}

func (p *poller) open(fds []int) error {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	for _, fd := range append(fds, event) {
		p.fds = append(p.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	p.patience, p.rested = soon, time.Now()
	return nil
}

// busy: there were packets. The wait for things to be retried begins anew.
func (p *poller) busy() {
	p.patience = soon
	p.rank.step(true)
}

// nap sleeps for napTime. It is short, so the goroutine keeps its place
// meanwhile. A signal may end it early: then it was a shorter one.
func (p *poller) nap() {
	p.timeout = unix.NsecToTimespec(int64(napTime))
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&p.timeout)), 0, 0)
	p.rested = time.Now()
}

// tired tells whether a rest is due.
func (p *poller) tired() bool { return time.Since(p.rested) > unrested }

// wait returns when a queue has packets, after wake, or after a while: soon if
// there is something to retry.
func (p *poller) wait(retry bool) {
	d := idleWait
	if retry {
		d = p.patience
		p.patience = min(2*p.patience, idleWait)
	}
	n, err := p.poll(d)
	p.rested = time.Now()
	if err != nil || n == 0 {
		return
	}
	for i := range p.fds {
		if p.fds[i].Revents&^unix.POLLIN != 0 {
			p.fds[i].Fd = -1 // broken, and poll would return at once for ever
		}
	}
}

// poll waits for at most d; who comes first not for longer than linger, and then
// steps back. The kernel writes the rest of the time back into timeout, so that is
// set each time.
func (p *poller) poll(d time.Duration) (n int, err error) {
	if !p.rank.first {
		p.timeout = unix.NsecToTimespec(int64(d))
		return unix.Ppoll(p.fds, &p.timeout, nil)
	}
	p.timeout = unix.NsecToTimespec(int64(min(d, linger)))
	r, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p.fds[0])), uintptr(len(p.fds)),
		uintptr(unsafe.Pointer(&p.timeout)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if r == 0 && d >= linger {
		p.rank.step(false)
	}
	return int(r), nil
}

// wake ends a wait, and every later one. It may be called from anywhere.
func (p *poller) wake() {
	// An eventfd takes 1 unless it is about to overflow, and then it is readable anyway.
	_, _ = unix.Write(p.event(), []byte{1, 1, 1, 1, 1, 1, 1, 0})
}

func (p *poller) close() { unix.Close(p.event()) }

func (p *poller) event() int { return int(p.fds[len(p.fds)-1].Fd) }
