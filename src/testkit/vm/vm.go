// SPDX-License-Identifier: Apache-2.0

// Package vm boots a Linux kernel in qemu, runs one program in it as root,
// and tells how that went.
//
// The VM has no disk: an initramfs holds a small init of our own
// (src/testkit/init), the programs that the caller names with their shared
// libraries, its files and the kernel's modules. The console is the serial
// port. qemu emulates the CPU (TCG), so that results don't depend on whether
// the machine offers KVM.
package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"fastpath/src/testkit/vm/job"
)

// Config says what to run, and where.
type Config struct {
	Kernel  Kernel
	MemMiB  int               // 0: 512
	CPUs    int               // 0: 1. qemu runs them by turns: more CPUs find races, not speed
	NICs    []int             // one virtio NIC for each: the number of the hub it is plugged into
	Modules []string          // nil: DefaultModules; only for kernels that have modules
	Files   map[string]string // path in the VM → the host's file or folder
	// Programs are found by name on the host: ip, nft, …. busybox brings its
	// applets, pppd its PPPoE plugin.
	Programs []string
	Args     []string      // the program to run and its arguments, from folder /job
	Env      []string      // NAME=value
	Append   string        // more kernel arguments
	Timeout  time.Duration // 0: twenty minutes
	// Sockets are more NICs, numbered after NICs, each wired to a unix stream
	// socket that the caller listens on. Frames follow their length there, 32 bits in
	// network byte order, and reach the VM in bursts: all that came within a millisecond.
	Sockets []string
	// VirtualTime makes the VM's clock count instructions, one a nanosecond, and
	// jump ahead while the CPU is idle: what is measured inside doesn't depend on
	// how busy this machine is.
	VirtualTime bool
}

// NICAddr is the MAC address of the i-th NIC.
func NICAddr(i int) string { return fmt.Sprintf("52:54:00:00:00:%02x", i+1) }

// DiedError says that the VM ended, or was ended, without a result.
type DiedError struct {
	Kernel string
	Cause  error    // context.DeadlineExceeded, context.Canceled, qemu's exit error; nil: qemu ended by itself
	Last   []string // the console's last lines
}

func (e *DiedError) Error() string {
	why := "it powered off without a result"
	if e.Cause != nil {
		why = e.Cause.Error()
	}
	return fmt.Sprintf("VM with kernel %s died: %s; its last lines:\n%s", e.Kernel, why, strings.Join(e.Last, "\n"))
}

func (e *DiedError) Unwrap() error { return e.Cause }

// WarningsError says that the program ended but the kernel's log tells of
// kernel bugs. They were printed.
type WarningsError struct {
	Kernel string
	Count  int
}

func (e *WarningsError) Error() string {
	return fmt.Sprintf("%d lines of kernel bugs in the log of kernel %s", e.Count, e.Kernel)
}

// Run boots the VM, writes the program's output to out line by line, and
// returns the program's exit status (128+n for signal n). A status other
// than 0 isn't an error. The error is a *DiedError or *WarningsError once
// qemu runs.
func Run(ctx context.Context, cfg Config, out io.Writer) (status int, err error) {
	if len(cfg.Args) == 0 {
		return 0, errors.New("vm: no program to run")
	}
	dir, err := os.MkdirTemp("", "fastpath-vm-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	image := filepath.Join(dir, "initramfs")
	if err := makeImage(cfg, image); err != nil {
		return 0, fmt.Errorf("initramfs: %w", err)
	}
	timeout := cfg.Timeout
	if timeout == 0 {
		timeout = 20 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := boot(ctx, cfg, image, out)
	if err != nil {
		return 0, err
	}
	if result.Warnings > 0 {
		return result.Status, &WarningsError{Kernel: cfg.Kernel.Name, Count: result.Warnings}
	}
	return result.Status, nil
}

func makeImage(cfg Config, path string) error {
	build, err := BuildDir()
	if err != nil {
		return err
	}
	initProg := filepath.Join(build, "init")
	unlock, err := buildInit(initProg)
	if err != nil {
		return err
	}
	defer unlock()
	var modules []module
	if cfg.Kernel.Modules != "" {
		wanted := cfg.Modules
		if wanted == nil {
			wanted = DefaultModules()
		}
		if modules, err = findModules(cfg.Kernel.Modules, wanted); err != nil {
			return err
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(writeImage(f, cfg, modules, initProg), f.Close())
}

// buildInit builds init, or finds it built; nobody else does so until unlock.
func buildInit(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if unlock, err = lock(path + ".lock"); err != nil {
		return nil, err
	}
	if err := GoBuild(path, "./src/testkit/init"); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// boot runs qemu to its end and reads the console.
func boot(ctx context.Context, cfg Config, image string, out io.Writer) (job.Result, error) {
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", qemuArgs(cfg, image)...)
	cmd.WaitDelay = 10 * time.Second // after the kill, for the pipe
	// qemu ends with us, however we end. The kernel means this thread by "us".
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	con := &console{out: out}
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = con, &stderr
	err := cmd.Run()
	con.flush()
	if con.result == nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return job.Result{}, &DiedError{Kernel: cfg.Kernel.Name, Cause: err, Last: append(con.last, stderr.String())}
	}
	return *con.result, nil
}
