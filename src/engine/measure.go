// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

var errStat = errors.New("/proc/stat has no line of all CPUs")

// The columns of /proc/stat's first line after its name (proc_stat(5)).
const (
	statSystem  = 2
	statIRQ     = 5
	statSoftIRQ = 6
)

// readSample takes a sample; the ports are named by their indexes. Workers run in
// user space only as long as they rewrite, so the process's user time is theirs,
// and what flowsync costs, which only an engine needs.
func (m *Manager) readSample(ports []int) (sample, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return sample{}, err
	}
	s := sample{at: time.Now()}
	if s.cpu, err = kernelTime(text); err != nil {
		return sample{}, err
	}
	var own unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
		return sample{}, fmt.Errorf("read our own CPU time: %w", err)
	}
	s.cpu += time.Duration(own.Utime.Nano())
	for _, index := range ports {
		l, err := m.netlink.LinkByIndex(index)
		if err != nil {
			return sample{}, fmt.Errorf("read the counters of ifindex %d: %w", index, err)
		}
		if st := l.Attrs().Statistics; st != nil {
			s.packets += st.RxPackets
		}
	}
	return s, nil
}

// kernelTime is what /proc/stat says that all CPUs together spent in softirqs,
// irqs and system calls.
func kernelTime(stat []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) <= 1+statSoftIRQ || string(fields[0]) != "cpu" {
		return 0, errStat
	}
	total := uint64(0)
	for _, column := range []int{statSystem, statIRQ, statSoftIRQ} {
		n, err := strconv.ParseUint(string(fields[1+column]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		total += n
	}
	return time.Duration(total) * time.Second / userHZ, nil
}
