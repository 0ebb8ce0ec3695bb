// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// comeFirst lets the calling thread preempt NAPI, where that is a thread (or
// ksoftirqd) on the same CPU. NAPI wakes it up once it has received a budget of
// 64 packets; if these are not forwarded then, NAPI goes on receiving what finds
// the rings full, and the more is offered the less gets through. A nice value
// does not do it: it is about shares of CPU time, not about who runs now. (CPU
// time per packet against the kernel's forwarding with NAT, veth, one CPU,
// saturated, medians of interleaved rounds: 0.79 so; at NAPI's nice value 1.9,
// ten below it 2.5.) The worker leaves time to the others as it works only on
// what NAPI gave it, and see unrested.
//
// Its naps end when they should: nothing is added to the time for other timers
// to expire along with them.
func comeFirst() error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("timer slack: %w", err)
	}
	param := struct{ priority int32 }{1} // the lowest of the real-time ones
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO, uintptr(unsafe.Pointer(&param)))
	if errno != 0 {
		return fmt.Errorf("real-time priority: %w", errno)
	}
	return nil
}
