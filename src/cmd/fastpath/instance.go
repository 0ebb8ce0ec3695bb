// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// instance is the right to change the kernel on behalf of one run directory.
// It is a flock on <run dir>/lock, so that it ends with the process, however
// that ends.
type instance struct {
	lock *os.File
	pid  string // path of the pid file
}

// errRunning means that another process has the instance.
var errRunning = errors.New("fastpath is running already")

// acquire takes the instance or says who has it. Nothing is touched then.
func acquire(runDir string) (*instance, error) {
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(runDir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	pid := filepath.Join(runDir, "pid")
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
		}
		if text, err := os.ReadFile(pid); err == nil {
			return nil, fmt.Errorf("%w (pid %s)", errRunning, strings.TrimSpace(string(text)))
		}
		return nil, errRunning
	}
	return &instance{lock: lock, pid: pid}, nil
}

// writePID tells the hotplug scripts whom to signal. The signals must be
// caught by then. A half-written file is never seen.
func (i *instance) writePID() error {
	tmp := i.pid + ".new"
	err := os.WriteFile(tmp, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644)
	if err == nil {
		err = os.Rename(tmp, i.pid)
	}
	if err != nil {
		os.Remove(tmp)
		return fmt.Errorf("pid file: %w", err)
	}
	return nil
}

// release gives the instance back. The lock file stays: to remove it would
// let two processes lock two files of the same name.
func (i *instance) release() error {
	defer i.lock.Close()
	if err := os.Remove(i.pid); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pid file: %w", err)
	}
	return nil
}
