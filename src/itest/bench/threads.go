// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// threads are the thread ids of what is measured.
type threads []int

// napiThreads finds the NAPI threads of a device, whose name must be unique on
// the machine: thread names don't know namespaces.
func napiThreads(device string) (threads, error) {
	var found threads
	comms, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil, err
	}
	for _, path := range comms {
		b, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(b), "napi/"+device+"-") {
			continue // not it, or gone
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		found = append(found, pid)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("device %s has no NAPI thread", device)
	}
	return found, nil
}

// processThreads are all threads of a process.
func processThreads(pid int) (threads, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	var found threads
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			return nil, err
		}
		found = append(found, tid)
	}
	return found, nil
}

// cpu is how long the threads ran: the first field of schedstat
// (Documentation/scheduler/sched-stats.rst), in nanoseconds.
func (ts threads) cpu() (time.Duration, error) {
	total := time.Duration(0)
	for _, tid := range ts {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", tid))
		if err != nil {
			return 0, err
		}
		field, _, _ := strings.Cut(string(b), " ")
		ns, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(ns)
	}
	return total, nil
}

// pin binds the threads to one CPU.
func (ts threads) pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	for _, tid := range ts {
		if err := unix.SchedSetaffinity(tid, &set); err != nil {
			return fmt.Errorf("pin thread %d to CPU %d: %w", tid, cpu, err)
		}
	}
	return nil
}

// renice changes the threads' nice values by delta.
func (ts threads) renice(delta int) error {
	for _, tid := range ts {
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, tid) // 20 - nice
		if err != nil {
			return fmt.Errorf("nice value of thread %d: %w", tid, err)
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, 20-raw+delta); err != nil {
			return fmt.Errorf("nice value of thread %d: %w", tid, err)
		}
	}
	return nil
}
