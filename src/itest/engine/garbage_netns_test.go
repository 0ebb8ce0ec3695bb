// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// litter makes garbage and has it collected, over and over: each time there is
// enough of it for a Collector. It ends with the router.
func litter(r *Router) {
	type link struct {
		next *link
		_    [1000]byte
	}
	chain := func(length int) (first *link) {
		for range length {
			first = &link{next: first}
		}
		return first
	}
	kept := chain(4 << 10)
	var before, after debug.GCStats
	for {
		debug.ReadGCStats(&before)
		chain(8 << 10)
		r.garbage.Collect()
		debug.ReadGCStats(&after)
		runtime.KeepAlive(kept)
		select {
		case <-r.stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		if after.NumGC == before.NumGC {
			panic("8 MB of garbage were not collected")
		}
	}
}

// On one CPU a worker goes on while garbage is collected. One that is stopped for
// it by Go's runtime spins, until the kernel stops it after 950 ms of a second, and
// that is seen in the time that it uses. (A busy machine delays it too, but then it
// uses no CPU time; and its usual work is the kernel's, sending.)
func TestGarbage(t *testing.T) {
	const spun = time.Second // one stall, and the work
	l := newLab(t)
	f, flow := traffic(l)
	var p process
	onOneCPU(t, func() {
		var err error
		if p, err = launch(t, l.router, garbage, l.spec("afxdp", flow)); err != nil {
			t.Fatal(err)
		}
	})
	until(l, f, "fast path", true)
	fast, slow := pace(l, f, 20*time.Second)
	used := userTime(l, f, p.PID())
	t.Logf("%d frames were forwarded, %d passed up, in %v of the worker's user time", fast, slow, used)
	p.finish()
	if fast == 0 || used >= spun {
		t.Errorf("the worker used %v", used)
	}
}

// userTime is what the worker of a process has used, in ticks of 10 ms. It is told
// by its priority, which it has while there are packets.
func userTime(l *lab, f Frame, pid int) time.Duration {
	l.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		send(l.t, l.left, f.Bytes())
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			l.t.Fatal(err)
		}
		for _, file := range threads {
			text, _ := os.ReadFile(file) // it may have ended
			_, text, _ = bytes.Cut(text, []byte(") "))
			stat := strings.Fields(string(text)) // proc_pid_stat(5), from field 3 on
			if len(stat) > 41-3 && stat[41-3] == strconv.Itoa(unix.SCHED_FIFO) {
				ticks, err := strconv.Atoi(stat[14-3])
				if err != nil {
					l.t.Fatal(err)
				}
				return time.Duration(ticks) * 10 * time.Millisecond
			}
		}
	}
	l.t.Fatal("no thread of the router has a worker's priority")
	return 0
}

// onOneCPU runs f, whose children stay on one CPU.
func onOneCPU(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.SchedSetaffinity(0, &all); err != nil {
			t.Error(err)
		}
	}()
	f()
}

// pace sends about a frame a millisecond for d and returns how many arrived by
// which path.
func pace(l *lab, f Frame, d time.Duration) (fast, slow int) {
	l.t.Helper()
	frame := f.Bytes()
	for end := time.Now().Add(d); time.Now().Before(end); {
		send(l.t, l.left, frame)
		time.Sleep(time.Millisecond)
		got, err := l.right.Receive(0)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, b := range got {
			switch {
			case len(b) < 60:
			case binary.BigEndian.Uint16(b[34:]) == fastPort:
				fast++
			case binary.BigEndian.Uint16(b[34:]) == slowPort:
				slow++
			}
		}
	}
	return fast, slow
}
