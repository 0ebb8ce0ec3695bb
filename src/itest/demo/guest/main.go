// SPDX-License-Identifier: Apache-2.0

// Command guest is the part of `make demo` that runs in the VM. It builds the
// topology, starts fastpath in the router as a router's owner would, sends
// traffic, does what the scenario is about, and prints what happened. It fails
// unless all of it is as it should be.
package main

import (
	"flag"
	"fmt"
	"os"

	"fastpath/src/itest/topo"
)

// scenarios are package demo's. Without one it is speed.
var scenarios = map[string]func(*page) error{
	"iptv":       iptv,
	"sqm":        sqm,
	"two-wans":   twoWANs,
	"roaming":    roaming,
	"dslite":     dslite,
	"early-drop": earlyDrop,
}

func main() {
	var want wanted
	flag.StringVar(&want.hook, "hook", "", "fail unless fastpath chooses this `HOOK`; counts without an engine")
	flag.StringVar(&want.engine, "engine", "", "the `ENGINE` of each port: xdp or afxdp; none given: the flowtable")
	tunnel := flag.Bool("dslite", false, "WAN is IPv6 with a DS-Lite tunnel, not PPPoE")
	scenario := flag.String("scenario", "", "show the scenario of this `NAME`; the engine is its own")
	flag.Parse()
	v := topo.PPPoEVLAN
	if *tunnel {
		v = topo.DSLite
	}
	var err error
	if show := scenarios[*scenario]; show != nil {
		err = tell(show, want)
	} else {
		err = speed(v, want)
	}
	if err != nil {
		fmt.Println("\nFAILED:", err)
		os.Exit(1)
	}
	fmt.Println("\nPASSED")
}
