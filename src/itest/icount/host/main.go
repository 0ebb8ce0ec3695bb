// SPDX-License-Identifier: Apache-2.0

// Command host is behind `make bench-vm`: how many instructions a forwarded
// packet costs, for each way through a router that fastpath can set up, with one
// flow and with ten. It counts them in a VM (see package icount), so a busy machine
// changes nothing. It prints a table and writes bench/results-vm.json; see usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"fastpath/src/itest/icount"
	"fastpath/src/testkit/vm"

	"golang.org/x/sys/unix"
)

const usage = `Usage: go run ./src/itest/icount/host FASTPATH

Counts the instructions that a packet costs a router on which the program
FASTPATH (amd64) runs, in VMs without a network outside. Needs qemu (make deps),
not root, and about five minutes; Ctrl-C ends it.

Writes bench/results-vm.json, and what the VMs say to build/bench-vm.log.

Environment:
  KERNEL  6.1, 6.12, early or the path of a bzImage; unset: early, the one with
          early_ingress, or 6.12 where there is none
`

const (
	jsonFile = "bench/results-vm.json"
	logFile  = "build/bench-vm.log"
)

// names are the paths that are counted, in the table's order.
var names = []string{icount.SlowPath, ingress, fraglist, early, shortLists, "xdp"}

const (
	ingress    = "flowtable at ingress"
	fraglist   = "fraglist + ingress"
	early      = "flowtable at early_ingress"
	shortLists = "early_ingress, lists of 8"
)

// flows are how many flows take turns; the RFC has figures for these.
var flows = []int{1, 10}

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := bench(ctx, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "bench-vm:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, fastpath string) error {
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		return fmt.Errorf("%w: make deps installs it", err)
	}
	k, err := kernel()
	if err != nil {
		return err
	}
	log, err := os.Create(logFile)
	if err != nil {
		return err
	}
	defer log.Close()
	var all icount.Counted
	for _, n := range flows {
		start := time.Now()
		fmt.Printf("kernel %s, flows: %d, ", k.Name, n)
		c, err := icount.Run(ctx, k, fastpath, n, names, io.MultiWriter(log, dots{}))
		fmt.Printf(" %.0f s\n", time.Since(start).Seconds())
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			return fmt.Errorf("%w; %s has what the VM said", err, logFile)
		}
		all.Kernel = c.Kernel
		all.Costs, all.Absent = append(all.Costs, c.Costs...), append(all.Absent, c.Absent...)
	}
	r := newResults(all)
	if err := errors.Join(os.MkdirAll(filepath.Dir(jsonFile), 0o755), r.write(jsonFile)); err != nil {
		return err
	}
	r.print(os.Stdout)
	fmt.Println("\nAll of it is in", jsonFile)
	return nil
}

// kernel is the one that KERNEL names, else the first that can be had.
func kernel() (k vm.Kernel, err error) {
	if name := os.Getenv("KERNEL"); name != "" {
		return vm.Find(name)
	}
	k, err = vm.Find("early")
	if errors.Is(err, vm.ErrNoKernel) {
		fmt.Printf("%v\nso this is kernel 6.12 (its first use downloads 100 MB)\n", err)
		return vm.Find("6.12")
	}
	return k, err
}

// dots shows that it goes on.
type dots struct{}

func (dots) Write(line []byte) (int, error) {
	if len(line) > 0 && line[0] == '{' {
		fmt.Print(".")
	}
	return len(line), nil
}
