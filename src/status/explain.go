// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"fastpath/src/state"
)

// The paths of Explanation besides the engines' names.
const (
	PathNone     = "none"     // conntrack doesn't know the connection
	PathSlow     = "slow"     // the kernel's ordinary forwarding, or the router itself
	PathForeign  = "foreign"  // somebody else's flowtable
	PathHardware = "hardware" // a flowtable that the NIC executes
)

// Explanation says which path a connection takes, and why.
type Explanation struct {
	Path string `json:"path"`           // an engine's name (flowtable, xdp, afxdp) or one of the above
	Text string `json:"text"`           // one sentence
	Rule string `json:"rule,omitempty"` // the rule of ours that decided
	// Connection is what conntrack has; absent when it has nothing.
	Connection *state.Connection `json:"connection,omitempty"`
}

// Accelerated tells whether the connection's packets pass the slow path by.
func (e Explanation) Accelerated() bool { return e.Path != PathNone && e.Path != PathSlow }

// Case is all that is known about one connection.
type Case struct {
	Connection *state.Connection // nil: conntrack has none
	Mark       uint32            // the ct mark bit of the engines
	Carried    *state.Flow       // the engine's flow; nil: none carries it
	Why        string            // the engines' reason not to carry it
	WhyKnown   bool              // they know the connection
	Table      *state.Table      // ours, as it is in force; nil: none
	Report     state.Report
	Others     []string // tables that have flowtables, too
	// InSet asks the kernel whether an address is in a set of our table.
	InSet func(set string, a netip.Addr) (bool, error)
}

// Explain finds the first thing that decided, in the order in which the
// kernel meets them: an engine before the stack, a flowtable at its hook, the
// rules of chain forward, and what `flow add` and the engines ask of a
// connection beyond these.
func (c Case) Explain() Explanation {
	n := c.Connection
	if n == nil {
		return Explanation{Path: PathNone, Text: "No path: conntrack has no such connection. It has ended or never was; or the addresses are a mixture of those before and after NAT"}
	}
	e := Explanation{Path: PathSlow, Connection: n}
	switch {
	case c.Carried != nil:
		e.Path, e.Text = c.Carried.Engine, carriedBy(*c.Carried)
		c.passed(&e)
	case n.Status&state.StatusHardware != 0:
		e.Path, e.Text = PathHardware, "By the hardware: the NIC or switch forwards it by itself"
	case n.Status&state.StatusOffload != 0 && !c.flowtable():
		e.Path, e.Text = PathForeign, "By a flowtable that isn't ours"+reason(strings.Join(c.Others, ", "))
	case n.Status&state.StatusOffload != 0:
		e.Path, e.Text = state.EngineFlowtable, c.byFlowtable()
		c.passed(&e)
	default:
		why, rule := c.slow()
		e.Text = "By the slow path: " + why
		if rule != nil {
			e.Rule = rule.String()
			e.Text += " (rule: " + e.Rule + ")"
		}
	}
	return e
}

func (c Case) flowtable() bool { return c.Table != nil && len(c.Table.Flowtable.Devices) > 0 }

func carriedBy(f state.Flow) string {
	return fmt.Sprintf("By engine %s, from %s to %s%s: %d packets sent, %d returned, idle for %.0f s",
		f.Engine, f.In, f.Out, reason(f.Encap), f.Orig.Packets, f.Reply.Packets, f.Idle)
}

func (c Case) byFlowtable() string {
	n := c.Connection
	which := "the flowtable"
	if len(c.Others) > 0 {
		which = "a flowtable, ours or that of table " + strings.Join(c.Others, ", ") + ", and the kernel doesn't tell which,"
	}
	s := fmt.Sprintf("By %s at hook %s, from %s to %s%s as computed from routes and links",
		which, c.Report.Hook, or(n.In, "?"), or(n.Out, "?"), reason(n.Encap))
	if n.Counted {
		s += fmt.Sprintf(": %d packets sent, %d returned", n.Orig.Packets, n.Reply.Packets)
	}
	if n.Proto == "udp" {
		s += "; its fragments, if there are any, take the slow path"
	}
	return s
}

// passed names the rule that let an accelerated connection pass.
func (c Case) passed(e *Explanation) {
	if c.Table == nil {
		return
	}
	switch j := c.judge(); {
	case j.rule == nil:
	case !j.hands():
		e.Text += fmt.Sprintf("; by now %s, but not when it was judged (rule: %s)", c.returned(*j.rule), j.rule)
	case j.policy != nil:
		e.Rule = j.policy.String()
		e.Text += fmt.Sprintf("; policy %q lets it pass (rule: %s)", j.policy.Policy, e.Rule) + doubts(j.unsure)
	default:
		e.Rule = j.rule.String()
	}
}

// slow is why the connection is on the slow path, and by which rule if it was one.
func (c Case) slow() (why string, rule *state.Rule) {
	n := c.Connection
	switch {
	case n.InDevice == "lo" || n.OutDevice == "lo":
		return "it begins or ends at the router itself, and only forwarded connections are accelerated", nil
	case c.Table == nil || len(c.Table.Rules) == 0:
		return "nothing is accelerated: " + or(c.Report.HookReason, "there is no table of ours"), nil
	case n.Mark&c.Mark != 0 && c.WhyKnown && c.Why != "":
		return "the rules hand it to an engine, but " + c.Why, nil
	case n.Mark&c.Mark != 0:
		return "the rules handed it to an engine, which is about to take it", nil
	}
	j := c.judge()
	rule = j.rule
	switch {
	case rule == nil:
		return "no rule hands it on" + doubts(j.unsure), nil
	case !rule.Verdict.Hands():
		return c.returned(*rule) + doubts(j.unsure), rule
	}
	if why := unready(*n); why != "" {
		return why, nil
	}
	if why := c.unlisted(); rule.Verdict == state.Add && why != "" {
		return why, nil
	}
	why = "nothing that conntrack tells keeps it there; it is handed on with its next packet" + doubts(j.unsure)
	if rule.Verdict == state.Add { // net/netfilter/nft_flow_offload.c refuses without a word
		why += "; if it stays, its packets have IP options or come in fragments, or the kernel finds no neighbour or no way that it can accelerate"
	}
	return why, rule
}

// returned puts a rule that sends packets back into words.
func (c Case) returned(r state.Rule) string {
	n := c.Connection
	if r.Policy != "" {
		return fmt.Sprintf("policy %q keeps it there", r.Policy)
	}
	switch m := r.Matches[0]; m.Key {
	case state.KeyL4Proto:
		return "only TCP and UDP are accelerated"
	case state.KeyCtState:
		return "no packet has come back yet, and only established connections are accelerated"
	case state.KeyPackets:
		return c.deferred(m.Values[0])
	case state.KeyCtMark:
		return fmt.Sprintf("its conntrack mark 0x%x is another program's (mwan3, pbr, qosify …), and an accelerated flow would not follow that", n.Mark)
	case state.KeyHelper:
		return "conntrack's helper " + n.Helper + " must see its packets"
	case state.KeyIif, state.KeyOif:
		return "device " + m.Values[0] + " stays on the slow path" + reason(c.reasonOf(m.Values[0]))
	}
	return "a rule sends it back"
}

// deferred is why a connection waits for so many packets.
func (c Case) deferred(packets string) string {
	n := c.Connection
	if !n.Counted {
		return "conntrack doesn't count its packets, as it began before nf_conntrack_acct was switched on, and defer_packets " +
			packets + " waits for these"
	}
	return fmt.Sprintf("defer_packets %s: it has had %d packets so far", packets, n.Orig.Packets+n.Reply.Packets)
}

// reasonOf is what the report says about an l3 device: paths begin with it.
func (c Case) reasonOf(device string) string {
	for _, p := range c.Report.Ports {
		if p.HookReason != "" && slices.Contains(devicesOf(p), device) {
			return p.HookReason
		}
	}
	return ""
}

// unready is what `flow add` (net/netfilter/nft_flow_offload.c) and the
// engines ask of a connection, and the rules don't.
func unready(n state.Connection) string {
	switch {
	case n.Proto == "tcp" && n.TCP != "" && n.TCP != "ESTABLISHED":
		return "its TCP state is " + n.TCP + ", and only ESTABLISHED is accelerated"
	case n.Status&state.StatusSeqAdjust != 0:
		return "a helper has changed its length, so that its sequence numbers must be corrected"
	case n.Status&state.StatusNATClash != 0:
		return "its first packets collided with another connection's NAT"
	case n.Status&state.StatusDying != 0:
		return "it is ending"
	}
	return ""
}

// unlisted names a port of the connection that the flowtable hasn't got. A
// bridge stands for its ports, which the routes don't tell.
func (c Case) unlisted() string {
	for _, port := range []string{c.Connection.In, c.Connection.Out} {
		if port == "" || slices.Contains(c.Table.Flowtable.Devices, port) {
			continue
		}
		for _, p := range c.Report.Ports {
			if p.Name == port {
				return "port " + port + " isn't in the flowtable" + reason(p.HookReason)
			}
		}
	}
	return ""
}

// doubts are the rules of which conntrack doesn't tell whether they match.
func doubts(unsure []state.Rule) string {
	if len(unsure) == 0 {
		return ""
	}
	var rules []string
	for _, r := range unsure {
		rules = append(rules, r.String())
	}
	return ", unless an earlier rule decides otherwise, which can't be told from conntrack: " + strings.Join(rules, "; ")
}
