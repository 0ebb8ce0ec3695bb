// SPDX-License-Identifier: Apache-2.0

// Command guest is the part of `make demo` that runs in the VM. It builds the
// topology, starts fastpath in the router as a router's owner would, sends
// traffic each way, and prints what happened. It fails unless nearly all of
// each flow passed the slow path by.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"fastpath/src/itest/topo"
)

const drawing = `
  LAN                             router                                  provider
                                               wan ------- the wire ------- line
  host1 %-14s -- lan1 \
                                br-lan - NAT - wan.35 ---- VLAN 35 -------- line.35
  host2 %-14s -- lan2 /
                                               pppoe-wan - PPPoE session -- pppoe-line

                                               the server: %s, %s

`

func main() {
	hook := flag.String("hook", "", "fail unless fastpath chooses this `HOOK`")
	flag.Parse()
	if err := run(*hook); err != nil {
		fmt.Println("\nFAILED:", err)
		os.Exit(1)
	}
	fmt.Println("\nPASSED")
}

func run(hook string) (err error) {
	heading("Topology: a VM with real pppd, pppoe-server for the discovery, PPPoE in the kernel at both ends")
	fmt.Printf(drawing, topo.Host1v4, topo.Host2v4, topo.Serverv4, topo.Serverv6)
	fmt.Println("   Building it; pppd dials.")
	n, err := topo.Build(topo.PPPoEVLAN, topo.Virtio)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := errors.Join(n.Variant.WriteConfig("/etc/config"), startCounter(n.Router)); err != nil {
		return err
	}
	show(n.Router, "cat", "/proc/net/pppoe")

	heading("fastpath plan, before")
	if code := show(n.Router, "fastpath", "plan"); code != planSteps {
		return fmt.Errorf("fastpath plan: exit status %d, want %d (there are steps)", code, planSteps)
	}
	heading("fastpath run")
	d, err := startDaemon(n.Router, hook)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if code := show(n.Router, "fastpath", "plan"); code != 0 {
		err = fmt.Errorf("fastpath plan: exit status %d, want 0 (nothing to do)", code)
	}
	return errors.Join(err, traffic(n, d))
}

// traffic sends each row and prints the table.
func traffic(n *topo.Net, d *daemon) error {
	heading("Traffic: each flow carries %d MB after its first packets, every byte is checked", rowBytes/1_000_000)
	var done []row
	var errs []error
	for i, t := range transfers(n) {
		r := row{transfer: t, early: d.hook == early}
		if i == 0 {
			r.halfway = func() {
				heading("fastpath status and fastpath flows, during %s", t)
				show(n.Router, "fastpath", "status")
				show(n.Router, "fastpath", "flows")
			}
		}
		if err := r.run(context.Background(), n.Router); err != nil {
			return err
		}
		done = append(done, r)
		errs = append(errs, r.verdict())
	}
	heading("fastpath status, after")
	show(n.Router, "fastpath", "status")
	doc, err := ask(n.Router)
	if err != nil {
		return err
	}
	if doc.Report.Hook != d.hook {
		errs = append(errs, fmt.Errorf("fastpath went from hook %s to %s", d.hook, doc.Report.Hook))
	}
	heading("Result: hook %s", doc.Report.Hook)
	fmt.Printf("%s\n", indent(doc.Report.HookReason))
	printTable(done)
	return errors.Join(errs...)
}
