// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Engines without traffic leave the router idle: in 30 s at most 100 ms of CPU,
// and at most thirty voluntary switches a second over all of the daemon's threads.
func TestIdle(t *testing.T) {
	const (
		span        = 30 * time.Second
		maxCPU      = 100 * time.Millisecond
		maxSwitches = 900
	)
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, engine)
			l.startDaemon()
			time.Sleep(5 * time.Second) // what the start has caused is over
			cpu, switches := l.usage()
			time.Sleep(span)
			cpu2, switches2 := l.usage()
			cpu, switches = cpu2-cpu, switches2-switches
			t.Logf("%v idle: CPU %v, %d voluntary switches, %d kB resident", span, cpu.Round(10*time.Microsecond), switches, l.resident())
			if cpu > maxCPU || switches > maxSwitches {
				t.Errorf("CPU %v (%v allowed), %d voluntary switches (%d allowed)", cpu, maxCPU, switches, maxSwitches)
			}
			l.stopDaemon()
		})
	}
}

// usage is what the daemon's threads have used: time on a CPU (schedstat, in
// ns) and voluntary switches.
func (l *lab) usage() (cpu time.Duration, switches int) {
	l.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", l.daemon.cmd.Process.Pid))
	if err != nil {
		l.Fatal(err)
	}
	for _, task := range tasks {
		stat, err := os.ReadFile(filepath.Join(task, "schedstat"))
		if err != nil {
			l.Fatal(err)
		}
		ns, err := strconv.ParseInt(strings.Fields(string(stat))[0], 10, 64)
		if err != nil {
			l.Fatal(err)
		}
		cpu += time.Duration(ns)
		switches += l.field(filepath.Join(task, "status"), "voluntary_ctxt_switches:")
	}
	return cpu, switches
}

// field is the number after a label at the beginning of a line.
func (l *lab) field(file, label string) int {
	l.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		l.Fatal(err)
	}
	_, rest, _ := strings.Cut("\n"+string(text), "\n"+label)
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		l.Fatalf("%s %s: %v", file, label, err)
	}
	return n
}

// resident is the daemon's memory in kB; 0 without one.
func (l *lab) resident() int {
	l.Helper()
	if l.daemon == nil {
		return 0
	}
	return l.field(fmt.Sprintf("/proc/%d/status", l.daemon.cmd.Process.Pid), "VmRSS:")
}
