// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"fastpath/src/testkit"

	"golang.org/x/sys/unix"
)

func collections() int64 {
	var st debug.GCStats
	debug.ReadGCStats(&st)
	return st.NumGC
}

// Nothing but Collect collects, and only when there is something.
func TestCollector(t *testing.T) {
	percent, limit := debug.SetGCPercent(77), debug.SetMemoryLimit(-1)
	defer debug.SetGCPercent(percent)
	var c Collector
	c.End() // nothing began
	c.Begin(math.MaxInt64)
	runtime.GC()
	before := collections()
	c.Collect()
	if n := collections() - before; n != 0 {
		t.Errorf("%d collections of nothing", n)
	}
	for range 8 * leastGarbage >> 20 {
		_ = append([]byte(nil), make([]byte, 1<<20)...)
	}
	if n := collections() - before; n != 0 {
		t.Errorf("%d collections, but nobody asked for one", n)
	}
	c.Collect()
	if n := collections() - before; n != 1 {
		t.Errorf("%d collections of much garbage, want 1", n)
	}
	c.End()
	if n := debug.SetGCPercent(77); n != 77 || debug.SetMemoryLimit(-1) != limit {
		t.Errorf("GC percent is %d after the end", n)
	}
}

// A worker comes first while it is busy, but neither when it is idle nor while
// garbage is collected, and makes no system call of the runtime's kind meanwhile.
func TestRank(t *testing.T) {
	r := newRig(t, 1, 1)
	w := r.worker
	go w.Run()
	defer w.Stop()
	policy := func() int {
		w.poll.rank.mu.Lock()
		defer w.poll.rank.mu.Unlock()
		if w.poll.rank.tid == 0 {
			return -1
		}
		n, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(w.poll.rank.tid), 0, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
		return int(n)
	}
	eventually(t, func() bool { return policy() != -1 })
	testkit.Need(t, !w.Counters().NotFirst, "the kernel refuses real-time priority")
	eventually(t, func() bool { return policy() == unix.SCHED_NORMAL }) // idle
	busy := func() bool { r.deliver(0, 0); return policy() == unix.SCHED_FIFO }
	eventually(t, busy)
	w.poll.rank.yield(true)
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if busy() {
			t.Fatal("it comes first although it must yield")
		}
	}
	w.poll.rank.yield(false)
	eventually(t, busy)
}
