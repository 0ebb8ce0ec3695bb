// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// measureHZ is the kernel's CONFIG_HZ: the coarse clock advances once a tick.
func measureHZ() (uint32, error) {
	var res unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &res); err != nil {
		return 0, fmt.Errorf("measure HZ: %w", err)
	}
	ns := res.Nano()
	if ns <= 0 || ns > int64(time.Second) {
		return 0, fmt.Errorf("measure HZ: the clock's resolution is %d ns", ns)
	}
	return uint32((int64(time.Second) + ns/2) / ns), nil
}

// possibleCPUs is how many CPUs the kernel may ever have: one more than the
// highest number.
func possibleCPUs() (int, error) {
	const file = "/sys/devices/system/cpu/possible"
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, err := cpusOf(string(text))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}

// cpusOf reads a list as the kernel prints it: "0-3\n", "0\n", "0,2-3\n".
func cpusOf(list string) (int, error) {
	list = strings.TrimSpace(list)
	last, err := strconv.ParseUint(list[strings.LastIndexAny(list, "-,")+1:], 10, 16)
	return int(last) + 1, err
}
