// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Collector collects garbage in the place of Go's runtime while workers run. A
// collection stops each goroutine to scan its stack, and a worker that comes
// first and is about to run would spin until that is done, which on its own CPU
// it never is: see rank. So no worker comes first while one runs.
//
// The runtime's own collector is off from Begin to End, but for the memory limit:
// to go over that is worse than to stand still for a second.
//
// Not more may stop the world, or look at stacks, meanwhile: no runtime.GOMAXPROCS,
// runtime.ReadMemStats, goroutine profile, runtime.Stack of all, runtime/trace, nor
// syscall.AllThreadsSyscall.
type Collector struct {
	mu      sync.Mutex
	workers []*Worker
	on      bool
	percent int   // of the runtime's own, before Begin
	limit   int64 // the same
}

// Garbage is collected when there is as much as half of what is in use, but not
// before leastGarbage.
const leastGarbage = 4 << 20

// Begin comes before any worker runs; limit is the most memory that Go may use, in
// bytes. The present limit stays if that is lower.
func (c *Collector) Begin(limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = debug.SetMemoryLimit(-1) // asks
	debug.SetMemoryLimit(min(limit, c.limit))
	c.percent = debug.SetGCPercent(-1)
	c.on = true
}

// Add comes before w runs.
func (c *Collector) Add(w *Worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = append(c.workers, w)
}

// End comes when no worker runs any more; without a Begin it does nothing.
func (c *Collector) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on {
		debug.SetGCPercent(c.percent)
		debug.SetMemoryLimit(c.limit)
	}
	c.on, c.workers = false, nil
}

// Collect collects if there is enough garbage. To ask is cheap: call it once a
// second while there is something to do, and now and then while not.
func (c *Collector) Collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on && due() {
		c.collect()
	}
}

// collect: what a worker waits for meanwhile is the other threads' work, and
// theirs is its; so all of them go before other processes, as equals.
func (c *Collector) collect() {
	for _, w := range c.workers {
		w.poll.rank.yield(true)
		defer w.poll.rank.yield(false)
	}
	have, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 less the nice value
	if err == nil {
		hurry(leastNice)
		defer hurry(20 - have) // the workers set their own anew
	}
	runtime.GC()
}

// hurry sets the nice value of all threads. Where the kernel refuses that, they
// have their turn as others do.
func hurry(nice int) {
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		if tid, err := strconv.Atoi(thread.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, nice) // it may be gone
		}
	}
}

// due: what is on the heap against what the last collection left there.
func due() bool {
	now := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(now)
	heap, live := now[0].Value.Uint64(), now[1].Value.Uint64()
	return heap > live+max(leastGarbage, live/2)
}
