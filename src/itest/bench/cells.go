// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// What can forward.
const (
	byKernel = "kernel"
	byXDP    = "xdp"
	byAFXDP  = "afxdp"
	byDevmap = "C devmap"
	byL2fwd  = "C l2fwd"
)

// What is pushed on the way out.
const (
	plain     = "none"
	vlanPPPoE = "vlan+pppoe"
	dslite    = "ds-lite" // no NAT: that is the provider's (RFC 6333)
)

// variant is one way of forwarding.
type variant struct {
	by    string
	encap string
	nat   bool
}

func (v variant) name() string {
	if v.nat {
		return v.by + "+nat"
	}
	return v.by
}

func (v variant) String() string {
	if v.encap == plain {
		return v.name()
	}
	return v.name() + " " + v.encap
}

var (
	kernelNAT   = variant{byKernel, plain, true} // what the ratios are over
	xdpNAT      = variant{byXDP, plain, true}
	xdpPPPoE    = variant{byXDP, vlanPPPoE, true}
	afxdpNAT    = variant{byAFXDP, plain, true}
	kernelPlain = variant{byKernel, plain, false}
	devmap      = variant{byDevmap, plain, false}
	l2fwd       = variant{byL2fwd, plain, false}
)

// variants in the order in which they take turns: what is divided by each other
// stands close. The running kernel's own VLAN, PPPoE and tunnel devices are not
// among them: it may have none.
var variants = []variant{
	kernelPlain,
	kernelNAT,
	xdpNAT,
	devmap,
	xdpPPPoE,
	{byXDP, dslite, false},
	l2fwd,
	afxdpNAT,
	{byAFXDP, vlanPPPoE, true},
	{byAFXDP, dslite, false},
}

// scene is what the generator sends.
type scene struct {
	size  int // of a frame, in bytes, without FCS
	flows int
	pps   int // 0: more than the router can take
}

const (
	paced     = 150_000 // packets/s
	manyFlows = 65536
)

func (s scene) load() string {
	if s.pps == 0 {
		return "saturated"
	}
	return fmt.Sprintf("%d kpps", s.pps/1000)
}

func (s scene) String() string {
	return fmt.Sprintf("%d bytes, %d flows, %s", s.size, s.flows, s.load())
}

var (
	ordinary = scene{64, 1000, 0}
	crowded  = scene{64, manyFlows, 0}
)

// scenes in the order in which they are measured. Those of many flows come last:
// conntrack's table is the whole machine's.
var scenes = []scene{
	ordinary,
	{64, 1000, paced},
	{64, 1, 0},
	{64, 1, paced},
	{1500, 1000, 0},
	{1500, 1000, paced},
	crowded,
	{64, manyFlows, paced},
}

// target is a limit for the median of a ratio of CPU time per packet.
type target struct {
	of, over variant
	scene    scene
	limit    float64
}

func (t target) what() string { return fmt.Sprintf("%s / %s", t.of, t.over) }

var targets = []target{
	{xdpNAT, kernelNAT, ordinary, 0.12},
	{xdpPPPoE, kernelNAT, ordinary, 0.13},
	{xdpNAT, kernelNAT, crowded, 0.15},
	{xdpNAT, devmap, ordinary, 1.30},
	{afxdpNAT, kernelNAT, ordinary, 0.80},
	{afxdpNAT, l2fwd, ordinary, 1.10},
}

// others is how many rounds there are where no target is judged.
func others(rounds int) int { return (rounds + 4) / 5 }

// roundsOf is how many rounds a scene has, if what is judged has so many.
func roundsOf(s scene, rounds int) int {
	for _, t := range targets {
		if t.scene == s {
			return rounds
		}
	}
	return others(rounds)
}

// due says whether a variant is measured in a round of a scene: what isn't judged
// is measured in every fifth, or in all if there are no more.
func due(v variant, s scene, round, rounds int) bool {
	return roundsOf(s, rounds) < rounds || judged(s, v) || round%5 == 0
}

// judged says whether a target needs this cell.
func judged(s scene, v variant) bool {
	for _, t := range targets {
		if t.scene == s && (t.of == v || t.over == v) {
			return true
		}
	}
	return false
}
