// SPDX-License-Identifier: Apache-2.0

// Package job is what the host's VM runner and the VM's init tell each other:
// a file in the initramfs one way, the last line of the console the other way.
package job

import (
	"fmt"
	"strconv"
	"strings"
)

// Paths in the VM.
const (
	File      = "/job/job.json" // the Job, as JSON
	ModuleDir = "/job/modules"  // the kernel modules, NAME.ko
)

// Job is what init has to do.
type Job struct {
	Modules []string // file names in ModuleDir, dependencies first
	Args    []string // the program and its arguments
	Env     []string // NAME=value, besides PATH and HOME
}

// Result is how it went.
type Result struct {
	Status   int // exit status of the program; 128+n if signal n ended it
	Warnings int // lines of the kernel's log that tell of a kernel bug
}

const resultPrefix = "VM-RESULT "

// String is the line that init prints last.
func (r Result) String() string {
	return fmt.Sprintf("%sstatus=%d warnings=%d", resultPrefix, r.Status, r.Warnings)
}

// ParseResult reads that line; ok is false for any other line.
func ParseResult(line string) (r Result, ok bool) {
	rest, ok := strings.CutPrefix(line, resultPrefix)
	if !ok {
		return Result{}, false
	}
	status, warnings, ok := strings.Cut(rest, " ")
	if !ok {
		return Result{}, false
	}
	var err1, err2 error
	r.Status, err1 = strconv.Atoi(strings.TrimPrefix(status, "status="))
	r.Warnings, err2 = strconv.Atoi(strings.TrimPrefix(warnings, "warnings="))
	return r, err1 == nil && err2 == nil
}

// bugs are the words by which the kernel's log tells of its own bugs.
var bugs = []string{
	"WARNING:", "BUG:", "Oops", "KASAN:", "general protection", "skb_under_panic",
	"skb_over_panic", "refcount_t:", "unregister_netdevice: waiting",
}

// KernelBug says whether a line of the kernel's log tells of a kernel bug.
func KernelBug(line string) bool {
	for _, b := range bugs {
		if strings.Contains(line, b) {
			return true
		}
	}
	return false
}
