// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rank lets a worker's thread preempt NAPI, where that is a thread (or ksoftirqd)
// on the same CPU. NAPI wakes it up once it has received a budget of 64 packets;
// if these are not forwarded then, NAPI goes on receiving what finds the rings
// full, and the more is offered the less gets through. A nice value does not do
// it: it is about shares of CPU time, not about who runs now. (CPU time per packet
// against the kernel's forwarding with NAT, veth, one CPU, saturated, medians of
// interleaved rounds: 0.79 so; at NAPI's nice value 1.9, ten below it 2.5.) The
// worker leaves time to the others as it works only on what NAPI gave it, and see
// unrested.
//
// The price: a thread that comes first must never wait for one that doesn't by
// spinning, because on its CPU that one then can't go on; the kernel ends this
// only after 950 ms (sched_rt_runtime_us). Go's runtime does spin (casgstatus,
// runtime/proc.go), while another thread has marked the goroutine with _Gscan:
//
//   - sysmon, and whoever stops the world, for each goroutine that they find in a
//     system call of the runtime's kind. So who is first makes only raw ones, and
//     an idle worker, which waits for long, isn't first.
//   - the garbage collector, to scan the stack. See Collector.
type rank struct {
	mu       sync.Mutex
	tid      int  // of the worker's thread; 0: there is none
	first    bool // the worker's wish; only it writes that
	yielding bool // the Collector's: not now
	priority int32
	refused  atomic.Bool // by the kernel: it goes on, slower under overload, but not wrong
}

// leastNice is the nice value of the greatest share of a CPU.
const leastNice = -20

// begin makes the calling thread the worker's. Its naps end when they should:
// nothing is added to the time for other timers to expire along with them.
func (r *rank) begin() {
	if unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) != nil {
		r.refused.Store(true)
	}
	r.mu.Lock()
	r.tid = unix.Gettid()
	r.rush()
	r.mu.Unlock()
	r.step(true)
}

// end: the thread is as others are, and nobody's.
func (r *rank) end() {
	r.step(false)
	r.mu.Lock()
	r.tid = 0
	r.mu.Unlock()
}

// step makes the worker the first, or one of many. It is called by the worker.
func (r *rank) step(first bool) {
	if r.first == first || r.refused.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = first
	r.apply()
	r.first = first && !r.refused.Load()
}

// yield makes the worker one of many for a while, whatever it wishes.
func (r *rank) yield(on bool) {
	r.mu.Lock()
	r.yielding = on
	r.apply()
	r.rush()
	r.mu.Unlock()
}

// rush gives the worker the most of a busy CPU while it is not first, so that the
// first packets after a pause don't wait for other processes' turns.
func (r *rank) rush() {
	if r.tid != 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, r.tid, leastNice) // where it may not, see apply
	}
}

func (r *rank) apply() {
	policy := unix.SCHED_NORMAL
	r.priority = 0
	if r.first && !r.yielding {
		policy, r.priority = unix.SCHED_FIFO, 1 // the lowest of the real-time ones
	}
	if r.tid == 0 {
		return
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(r.tid), uintptr(policy), uintptr(unsafe.Pointer(&r.priority)))
	if errno != 0 {
		r.refused.Store(true)
	}
}
