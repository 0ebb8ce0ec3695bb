// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"fastpath/src/itest/topo"
)

const pppoeDrawing = `
  LAN                             router                                  provider
                                               wan ------- the wire ------- line
  host1 %-14s -- lan1 \
                                br-lan - NAT - wan.35 ---- VLAN 35 -------- line.35
  host2 %-14s -- lan2 /
                                               pppoe-wan - PPPoE session -- pppoe-line

                                               the server: %s, %s

`

const dsliteDrawing = `
  LAN                             router                                  provider
                                               wan ------- the wire ------- line
  host1 %-14s -- lan1 \
                                br-lan ------- wan.35 ---- VLAN 35, IPv6 -- line.35
  host2 %-14s -- lan2 /
                                               ds-dslite - IPv4 in IPv6 --- aftr - NAT

                                               the server: %s, %s

`

// speed shows that nearly all of each flow passes the slow path by.
func speed(v topo.Variant, want wanted) (err error) {
	n, err := buildRouter(v, want)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()

	heading("fastpath plan, before")
	if code := show(n.Router, "fastpath", "plan"); code != planSteps {
		return fmt.Errorf("fastpath plan: exit status %d, want %d (there are steps)", code, planSteps)
	}
	heading("fastpath run")
	d, err := startDaemon(n.Router, want)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if code := show(n.Router, "fastpath", "plan"); code != 0 {
		err = fmt.Errorf("fastpath plan: exit status %d, want 0 (nothing to do)", code)
	}
	return errors.Join(err, traffic(n, want))
}

// buildRouter makes the topology and what the router's owner has configured.
func buildRouter(v topo.Variant, want wanted) (*topo.Net, error) {
	title, drawing := "real pppd, pppoe-server for the discovery, PPPoE in the kernel at both ends", pppoeDrawing
	if v.DSLite {
		title, drawing = "IPv6 to the provider, IPv4 in a DS-Lite tunnel between kernels", dsliteDrawing
	}
	heading("Topology: a VM with %s", title)
	fmt.Printf(drawing, topo.Host1v4, topo.Host2v4, topo.Serverv4, topo.Serverv6)
	fmt.Println("   Building it.")
	n, err := topo.Build(v, topo.Virtio)
	if err != nil {
		return nil, err
	}
	// Force: an engine's trial sends flows by the path that they would have
	// without it, for seconds in which the demo would see just that.
	e := topo.Engine{Kind: want.engine, Force: true}
	if err := errors.Join(v.WriteConfig("/etc/config", e), startCounter(n.Router)); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	if v.PPPoE {
		show(n.Router, "cat", "/proc/net/pppoe")
	} else {
		show(n.Router, "ip", "-6", "-d", "tunnel", "show", v.Tunnel())
	}
	show(n.Router, "cat", "/etc/config/fastpath")
	return n, nil
}

// traffic sends each row and prints the table.
func traffic(n *topo.Net, want wanted) error {
	heading("Traffic: each flow carries %d MB after its first packets, every byte is checked", rowBytes/1_000_000)
	doc, err := ask(n.Router)
	if err != nil {
		return err
	}
	before := doc.Report
	var done []row
	var errs []error
	for i, t := range transfers(n) {
		r := row{transfer: t, untapped: want.untapped(before)}
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
	if doc, err = ask(n.Router); err != nil {
		return err
	}
	after := doc.Report
	if errs = append(errs, want.check(after)); after.Hook != before.Hook {
		errs = append(errs, fmt.Errorf("fastpath went from hook %s to %s", before.Hook, after.Hook))
	}
	if want.engine != "" {
		heading("Result: engine %s on each port", want.engine)
	} else {
		heading("Result: hook %s", after.Hook)
		fmt.Printf("%s\n", indent(after.HookReason))
	}
	printTable(done)
	return errors.Join(errs...)
}
