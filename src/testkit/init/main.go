// SPDX-License-Identifier: Apache-2.0

// Command init is process 1 of the test VM: it mounts, loads the modules,
// runs one program on the console, reports, and powers off.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"fastpath/src/testkit/vm/job"
)

func main() {
	result := job.Result{Status: 125}
	if err := setUp(); err != nil {
		fmt.Println("init:", err)
	} else if j, err := readJob(); err != nil {
		fmt.Println("init:", err)
	} else {
		result = run(j)
	}
	bugs, err := kernelBugs()
	if err != nil {
		fmt.Println("init:", err)
		result.Status = 125
	}
	result.Warnings = len(bugs)
	for _, line := range bugs {
		fmt.Println("kernel:", line)
	}
	fmt.Println(result)
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("init: power off:", err)
	}
}

// mounts are what programs expect; those that a small kernel may lack are optional.
var mounts = []struct {
	kind, dir string
	optional  bool
}{
	{"proc", "/proc", false},
	{"sysfs", "/sys", false},
	{"devtmpfs", "/dev", false},
	{"devpts", "/dev/pts", false},
	{"tmpfs", "/run", false},
	{"tmpfs", "/tmp", false},
	{"bpf", "/sys/fs/bpf", true},
	{"debugfs", "/sys/kernel/debug", true},
}

func setUp() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.dir, 0o755); err != nil && !m.optional {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil && !m.optional {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	for _, dir := range []string{"/run/netns", "/run/lock"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// Errors of the kernel belong on the console, its chatter doesn't.
	if err := os.WriteFile("/proc/sys/kernel/printk", []byte("4"), 0); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("vm")); err != nil {
		return fmt.Errorf("sethostname: %w", err)
	}
	return linkUp("lo")
}

func linkUp(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

func readJob() (job.Job, error) {
	var j job.Job
	text, err := os.ReadFile(job.File)
	if err != nil {
		return j, err
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return j, fmt.Errorf("%s: %w", job.File, err)
	}
	for _, name := range j.Modules {
		if err := loadModule(filepath.Join(job.ModuleDir, name)); err != nil {
			return j, err
		}
	}
	return j, nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load %s: %w", path, err)
	}
	return nil
}

func run(j job.Job) job.Result {
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TERM=dumb"}
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		os.Setenv(k, v) // exec.Command looks the program up in our own PATH
	}
	cmd := exec.Command(j.Args[0], j.Args[1:]...)
	cmd.Dir = "/job"
	cmd.Env = append(env, j.Env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return job.Result{}
	case !errors.As(err, &exit):
		fmt.Println("init:", err)
		return job.Result{Status: 125}
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return job.Result{Status: 128 + int(ws.Signal())}
	}
	return job.Result{Status: exit.ExitCode()}
}

// kernelBugs reads the kernel's log and returns the lines that tell of a bug.
func kernelBugs() ([]string, error) {
	const readAll, bufferSize = 3, 10 // syslog(2)
	size, err := unix.Klogctl(bufferSize, nil)
	if err != nil {
		return nil, fmt.Errorf("size of the kernel's log: %w", err)
	}
	buf := make([]byte, size)
	n, err := unix.Klogctl(readAll, buf)
	if err != nil {
		return nil, fmt.Errorf("kernel's log: %w", err)
	}
	var bugs []string
	for _, line := range strings.Split(string(buf[:n]), "\n") {
		if job.KernelBug(line) {
			bugs = append(bugs, line)
		}
	}
	return bugs, nil
}
