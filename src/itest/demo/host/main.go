// SPDX-License-Identifier: Apache-2.0

// Command host is `make demo`: it boots a VM for each kernel and runs the
// guest program in it, which shows a router with PPPoE on a VLAN being
// accelerated. KERNEL=NAME or KERNEL=PATH picks one kernel (see package vm).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"fastpath/src/itest/topo"
	"fastpath/src/testkit/vm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// kernels are Debian's, with hook ingress, and the one with early_ingress,
// unless KERNEL says otherwise.
func kernels() []string {
	if os.Getenv("KERNEL") != "" {
		return vm.Kernels()
	}
	return []string{"6.12", "early"}
}

// wantHook is what the daemon has to choose; "" if only it can know.
func wantHook(kernel string) string {
	switch kernel {
	case "6.1", "6.12":
		return "ingress"
	case "early":
		return "early_ingress"
	}
	return ""
}

func run(ctx context.Context) error {
	start := time.Now()
	dir, err := os.MkdirTemp("", "fastpath-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var errs []error
	for _, name := range kernels() {
		fmt.Printf("\n#### The demo on kernel %s: building, then booting a VM (emulated: some ten seconds)\n\n", name)
		k, err := vm.Find(name)
		if errors.Is(err, vm.ErrNoKernel) && os.Getenv("KERNEL") == "" && os.Getenv("MUSTRUN") != "1" {
			fmt.Printf("NOT SHOWN: %v\n", err)
			continue
		}
		if err == nil {
			err = demo(ctx, k, dir)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("kernel %s: %w", name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Printf("\nAll of it took %.0f s.\n", time.Since(start).Seconds())
	return errors.Join(errs...)
}

// demo runs the guest program on one kernel.
func demo(ctx context.Context, k vm.Kernel, dir string) error {
	cfg, err := topo.VM(k, dir)
	if err != nil {
		return err
	}
	for _, p := range []struct{ dest, pkg string }{
		{"/usr/sbin/fastpath", "./src/cmd/fastpath"},
		{"/job/demo", "./src/itest/demo/guest"},
	} {
		prog := filepath.Join(dir, filepath.Base(p.dest))
		if err := vm.GoBuild(prog, p.pkg); err != nil {
			return err
		}
		cfg.Files[p.dest] = prog
	}
	cfg.Programs = append(cfg.Programs, "tcpdump")
	cfg.Args = []string{"/job/demo", "-hook=" + wantHook(k.Name)}
	cfg.Timeout = 30 * time.Minute
	status, err := vm.Run(ctx, cfg, os.Stdout)
	if err == nil && status != 0 {
		err = errors.New("the demo failed, see above")
	}
	return err
}
