// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"fastpath/src/testkit"
)

// used is what a process has used since its start, all threads together.
type used struct {
	cpu      time.Duration // utime + stime
	switches int           // voluntary
	rss      int           // kB, now
}

// usageOf reads /proc (proc(5)): fields 14 and 15 of stat are in ticks of 10 ms
// on every architecture (USER_HZ).
func usageOf(pid int) (used, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return used{}, err
	}
	// The name in field 2 may hold blanks; after its bracket comes field 3.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var u used
	for _, f := range fields[14-3 : 16-3] {
		ticks, err := strconv.Atoi(f)
		if err != nil {
			return used{}, fmt.Errorf("stat: %w", err)
		}
		u.cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	threads, err := filepath.Glob(filepath.Join(dir, "task", "*", "status"))
	if err != nil {
		return used{}, err
	}
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			return used{}, err
		}
		u.switches += number(string(text), "voluntary_ctxt_switches:")
		u.rss = number(string(text), "VmRSS:") // of the process, the same in each thread
	}
	return u, nil
}

// number is the one after the label at the beginning of a line.
func number(text, label string) int {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, label); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

// An idle router stays idle. The budgets are the project's: in 60 s without
// flows at most 50 ms of CPU and 120 voluntary switches, the minute's look
// included; 12 MB resident 60 s after READY, on amd64.
func TestIdle(t *testing.T) {
	testkit.Need(t, os.Getenv("FASTPATH_LONG") == "1", "it takes over a minute: FASTPATH_LONG=1")
	p := newProc(t)
	p.start()
	first := p.document()
	time.Sleep(5 * time.Second) // what the start itself caused is over
	before, err := usageOf(p.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(60 * time.Second)
	after, err := usageOf(p.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	cpu, switches := after.cpu-before.cpu, after.switches-before.switches
	t.Logf("60 s idle: cpu %v, voluntary switches %d, VmRSS %d kB", cpu, switches, after.rss)
	if cpu > 50*time.Millisecond {
		t.Errorf("cpu %v in 60 s, budget 50 ms", cpu)
	}
	if switches > 120 {
		t.Errorf("%d voluntary switches in 60 s, budget 120", switches)
	}
	if runtime.GOARCH == "amd64" && after.rss > 12<<10 {
		t.Errorf("VmRSS %d kB, budget 12 MB", after.rss)
	}
	if looks := p.document().Look.Count - first.Look.Count; looks < 1 {
		t.Error("it did not even look once")
	}
}
