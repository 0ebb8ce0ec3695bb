// SPDX-License-Identifier: Apache-2.0

// Command host is `make demo`: it boots a VM for each kernel and runs the
// guest program in it, which shows a router being accelerated by the fastpath
// that it is given (amd64). See usage.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	scenarios "fastpath/src/itest/demo"
	"fastpath/src/itest/topo"
	"fastpath/src/testkit/vm"
)

const usage = `Usage: make demo [SCENARIO=NAME] [ENGINE=xdp|afxdp] [WAN=pppoe|dslite] [KERNEL=NAME|PATH]

  SCENARIO  what to show; without it, that the router is accelerated. There are
%s  ENGINE    a packet engine on each port; without it, the flowtable
  WAN       pppoe: PPPoE on a VLAN (as without it); dslite: IPv4 in IPv6 on a VLAN
  KERNEL    one kernel only: 6.1, 6.12, early, or the path of a bzImage; without it,
            6.12, and early where there is one

ENGINE and WAN are not for scenarios, which have their own.
`

func main() {
	flag.Usage = func() { fmt.Fprintf(flag.CommandLine.Output(), usage, indented()) }
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// indented is the list of scenarios for usage.
func indented() (text string) {
	for line := range strings.Lines(scenarios.List()) {
		text += "          " + line
	}
	return text
}

// kernels are Debian's, with hook ingress, and the one with early_ingress,
// unless KERNEL says otherwise.
func kernels() []string {
	if os.Getenv("KERNEL") != "" {
		return vm.Kernels()
	}
	return []string{"6.12", "early"}
}

// show is what is to be shown on each kernel.
type show struct{ scenario, engine, wan string }

func readShow() (s show, err error) {
	s = show{scenario: os.Getenv("SCENARIO"), engine: os.Getenv("ENGINE"), wan: os.Getenv("WAN")}
	if s.scenario != "" {
		if s.engine+s.wan != "" {
			return s, fmt.Errorf("SCENARIO=%s has an engine and a WAN of its own: leave ENGINE and WAN out", s.scenario)
		}
		_, err = scenarios.Find(s.scenario)
		return s, err
	}
	s.wan = cmp.Or(s.wan, "pppoe")
	switch {
	case !slices.Contains([]string{"", "xdp", "afxdp"}, s.engine):
		return s, fmt.Errorf("ENGINE=%s: want xdp or afxdp", s.engine)
	case !slices.Contains([]string{"pppoe", "dslite"}, s.wan):
		return s, fmt.Errorf("WAN=%s: want pppoe or dslite", s.wan)
	case s.wan == "dslite" && s.engine == "":
		return s, errors.New("WAN=dslite wants ENGINE=xdp or afxdp; SCENARIO=dslite shows the flowtable too")
	}
	return s, nil
}

// args are the guest program's.
func (s show) args(kernel string) []string {
	if s.scenario != "" {
		return []string{"-hook=" + wantHook(kernel), "-scenario=" + s.scenario}
	}
	return []string{"-hook=" + wantHook(kernel), "-engine=" + s.engine, fmt.Sprintf("-dslite=%v", s.wan == "dslite")}
}

func (s show) title() string {
	if s.scenario == "" {
		return ""
	}
	return " " + s.scenario
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

func run(ctx context.Context, fastpath string) error {
	what, err := readShow()
	if err != nil {
		return err
	}
	start := time.Now()
	dir, err := os.MkdirTemp("", "fastpath-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var errs []error
	var summary strings.Builder
	for _, name := range kernels() {
		fmt.Printf("\n#### The demo%s on kernel %s\n\n", what.title(), name)
		k, err := find(name)
		if errors.Is(err, vm.ErrNoKernel) && os.Getenv("KERNEL") == "" && os.Getenv("MUSTRUN") != "1" {
			fmt.Printf("   not shown: %v\n", err)
			fmt.Fprintf(&summary, "  kernel %-6s NOT SHOWN, see above why\n", name)
			continue
		}
		if err == nil {
			err = demo(ctx, k, what, fastpath, dir)
		}
		verdict := "passed"
		if err != nil {
			verdict = "FAILED"
			errs = append(errs, err)
		}
		fmt.Fprintf(&summary, "  kernel %-6s %s\n", name, verdict)
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Printf("\n#### The demo%s took %.0f s\n\n%s", what.title(), time.Since(start).Seconds(), &summary)
	return errors.Join(errs...)
}

// step does what may take a while, and says so now and every 20 s.
func step(what string, do func() error) error {
	start := time.Now()
	fmt.Println("  ", what)
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(20 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				fmt.Printf("   … %.0f s\n", time.Since(start).Seconds())
			}
		}
	}()
	defer close(done)
	return do()
}

func find(name string) (k vm.Kernel, err error) {
	what := "finding the kernel"
	if name == "6.1" || name == "6.12" {
		what = "finding Debian's kernel package; its first use downloads 100 MB"
	}
	err = step(what, func() error {
		k, err = vm.Find(name)
		return err
	})
	return k, err
}

// demo runs the guest program on one kernel.
func demo(ctx context.Context, k vm.Kernel, what show, fastpath, dir string) error {
	var cfg vm.Config
	err := step("building the programs of the VM", func() (err error) {
		if cfg, err = topo.VM(k, dir); err != nil {
			return err
		}
		cfg.Files["/usr/sbin/fastpath"] = fastpath
		cfg.Files["/job/demo"] = filepath.Join(dir, "demo")
		return vm.GoBuild(cfg.Files["/job/demo"], "./src/itest/demo/guest")
	})
	if err != nil {
		return err
	}
	cfg.Programs = append(cfg.Programs, "tcpdump", "tc", "bridge", "conntrack")
	cfg.Args = append([]string{"/job/demo"}, what.args(k.Name)...)
	cfg.VirtualTime = true
	cfg.Timeout = 30 * time.Minute
	fmt.Println("   booting it (its CPU is emulated: this takes some ten seconds)")
	status, err := vm.Run(ctx, cfg, os.Stdout)
	if err == nil && status != 0 {
		err = fmt.Errorf("kernel %s: failed, see above", k.Name)
	}
	return err
}
