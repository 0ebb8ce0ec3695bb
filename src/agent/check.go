// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"

	"fastpath/src/state"
	"fastpath/src/status"
)

// The behaviour check of early_ingress. No released kernel has fixed the
// hook's number, so a kernel that accepts ours may mean something else by it.
// What the hook promises is that packets of accelerated flows never reach
// netdev ingress; so a chain there counts, on every port of the flowtable,
// and is compared with three other counters over the same time:
//
//	flows    packets of the connections that were in the flowtable at both
//	         samples, by conntrack; one for each skb
//	slow     established packets at chain forward; flows - slow is the least
//	         that was accelerated (accel), since not all slow ones were theirs
//	rx       packets that the kernel got from the ports: received by their
//	         drivers, or on a port with an engine what the engine passed on, as
//	         the others never reach any hook
//	ingress  packets that the chains saw; one for each skb
//
// With a the accelerated and o all other skbs, a true early_ingress gives
// ingress = o, an ordinary one ingress = a + o. o is unknown: there is always
// other traffic. That leaves two ways to tell:
//
//  1. ingress < accel: some accelerated ones weren't at ingress, whatever o
//     is. This can prove, but never refute, and not when o is large.
//  2. bypassed = rx - ingress: what the drivers delivered and ingress did
//     not see. Early: at least a. Ordinary: 0, and what GRO joined, which is
//     why only ports that join nothing (exact) can prove by it. To refute
//     needs no exactness: joined packets only make it larger.
//
// Without counters (option counters '0', nf_conntrack_acct 0) flows is unknown; then only way 2
// remains, with most of what was received in place of accel, and nothing can
// refute.
//
// The factors leave room for what is inexact: the counters are read one after
// the other (milliseconds of some seconds), some drivers bring theirs up to
// date once a second only (hence rx >= flows before refuting, which holds in
// the case to be refuted), some count frames that they dropped (way 2 would
// take a loss of 3/7 for a proof; such a hook still accelerates, only its
// name would be wrong).
const (
	proveAccel  = 100    // way 1: at least so many accelerated packets
	proveBypass = 1000   // way 2
	refuteFlows = 1000   // accelerated packets before refuting
	refuteBlind = 10_000 // packets of flows before saying that the hook is blind
)

// evidence is what was counted since the check began.
type evidence struct {
	flows, slow, rx, ingress uint64
	carried                  bool // there were flows in the flowtable
	counted                  bool // flows means something
	exact                    bool // every checked port delivers packet by packet: no GRO, LRO, XDP
}

// verdict weighs the evidence; see the top for the arithmetic.
func (e evidence) verdict() status.EarlyCheck {
	accel := e.flows - min(e.flows, e.slow)
	bypassed := e.rx - min(e.rx, e.ingress)
	saw := fmt.Sprintf("%d of %d received packets were seen at netdev ingress", e.ingress, e.rx)
	switch {
	case !e.carried:
		return status.EarlyCheck{Verdict: status.Unknown, Reason: "no flows to judge by yet"}
	case !e.counted && e.exact && bypassed >= proveBypass && bypassed > e.ingress:
		return status.EarlyCheck{Verdict: status.Confirmed, Reason: "only " + saw}
	case !e.counted:
		return status.EarlyCheck{Verdict: status.Unknown, Reason: "not proved yet, flows are not counted: " + saw}
	case accel >= proveAccel && e.ingress < accel/2,
		accel >= proveBypass && e.exact && bypassed >= accel/4*3:
		return status.EarlyCheck{Verdict: status.Confirmed,
			Reason: fmt.Sprintf("%d packets were accelerated, and only %s", accel, saw)}
	case accel >= refuteFlows && e.rx >= e.flows && bypassed < e.flows/4:
		return status.EarlyCheck{Verdict: status.Refuted,
			Reason: fmt.Sprintf("accelerated packets pass netdev ingress first: %d were accelerated, but %s", accel, saw)}
	case e.flows >= refuteBlind && e.rx >= e.flows && bypassed < e.flows/4:
		return status.EarlyCheck{Verdict: status.Refuted,
			Reason: fmt.Sprintf("the hook doesn't see the flows: %d of their %d packets took the slow path", min(e.slow, e.flows), e.flows)}
	}
	return status.EarlyCheck{Verdict: status.Unknown,
		Reason: fmt.Sprintf("not proved yet: %d packets were accelerated, %s", accel, saw)}
}

// check gathers evidence until there is a verdict. The verdict holds for the
// hook number, as long as the daemon runs: a restart judges anew.
type check struct {
	number uint32
	result status.EarlyCheck
	seen   evidence
	doubt  bool // the sample before spoke against the hook
}

// use tells which hook number is configured; another number needs another verdict.
func (c *check) use(number uint32) {
	if c.number != number || c.result.Verdict == "" {
		*c = check{number: number, result: status.EarlyCheck{Verdict: status.Unknown}}
	}
}

// restart forgets the evidence, because a table or a chain was made anew.
func (c *check) restart() { c.seen, c.doubt = evidence{exact: true}, false }

// open tells whether the check still needs evidence of this flowtable.
func (c *check) open(t *carried) bool {
	return t != nil && t.number == c.number && c.number != state.NumberIngress &&
		len(t.checks) > 0 && c.result.Verdict == status.Unknown
}

// add weighs one more interval and reports whether it brought a verdict.
func (c *check) add(d status.Delta, flows int, t *carried) bool {
	c.seen.flows += d.Known.Packets
	c.seen.slow += d.Slow.Packets
	for _, port := range t.checks {
		c.seen.rx += d.Kernel(port)
		c.seen.ingress += d.Ports[port].Ingress
	}
	c.seen.carried = c.seen.carried || flows > 0
	c.seen.counted = c.seen.counted || d.Counted
	c.seen.exact = c.seen.exact && t.exact
	c.result = c.seen.verdict()
	doubted := c.doubt
	c.doubt = c.result.Verdict == status.Refuted
	if c.doubt && !doubted {
		c.result.Verdict = status.Unknown
	}
	return c.result.Verdict != status.Unknown
}

// exact tells whether the drivers' counts of the checked ports can be compared
// packet by packet with what the stack sees.
func exact(o state.Observed, want state.State) bool {
	for _, name := range want.Checks {
		for _, l := range o.Links {
			off := l.Feature.Offloads()
			if w, ok := want.Features[name]; ok {
				off = w
			}
			if l.Name == name && (l.XDP != 0 || off.Merges()) {
				return false
			}
		}
	}
	return true
}
