// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"

	"fastpath/src/state"
)

// explained is an established connection from the LAN by PPPoE, and a router
// with a flowtable that would take it.
func explained() Case {
	n := state.Connection{
		Flow:     filterFlow,
		Status:   state.StatusSeenReply | state.StatusAssured,
		TCP:      "ESTABLISHED",
		InDevice: "br-lan", OutDevice: "pppoe-wan",
	}
	n.Engine, n.In, n.Out, n.Encap = "", "br-lan", "eth0", "pppoe session 7 over vlan 35"
	return Case{
		Connection: &n, Mark: 0x40000000,
		Table: &state.Table{
			Flowtable: state.Flowtable{Devices: []string{"eth0", "lan1"}},
			Engines:   map[string][]string{state.EngineXDP: {"br-guest", "eth9"}},
			Rules: []state.Rule{
				state.Return.When(state.IsNot(state.KeyL4Proto, "tcp", "udp")),
				state.Return.When(state.IsNot(state.KeyCtState, "established")),
				state.Count.When(),
				state.Return.When(state.IsNot(state.KeyMark, "0")),
				state.Return.When(state.IsNot(state.KeyCtMark, "0/0xbfffffff")),
				state.Return.When(state.Is(state.KeyHelper)),
				state.Return.When(state.Is(state.KeySecpath)),
				state.Return.When(state.Is(state.KeyIif, "tun0")),
				state.Return.When(state.Is(state.KeyOif, "tun0")),
				state.Mark(0x40000000).When(state.Is(state.KeyIif, "@"+state.EngineXDP), state.Is(state.KeyOif, "@"+state.EngineXDP)),
				state.Add.When(),
			},
		},
		Report: state.Report{Hook: state.HookIngress, HookReason: "early_ingress is missing", Ports: []state.PortReport{
			{Name: "eth0", Path: "pppoe-wan / eth0.35 / eth0", Hook: state.HookIngress},
			{Name: "lan1", Path: "br-lan / lan1", Hook: state.HookIngress},
			{Name: "tun0", Path: "tun0", Hook: state.HookOff, HookReason: "a tunnel (tun)"},
			{Name: "eth5", Path: "eth5", Hook: state.HookOff, HookReason: "nothing is forwarded there"},
		}},
	}
}

const doubt = `unless an earlier rule decides otherwise, which can't be told from conntrack: meta mark != 0 return; meta secpath exists return`

// Each case changes one thing; the order is that of the decisions.
var explainCases = []struct {
	what   string
	change func(c *Case, n *state.Connection)
	path   string
	rule   string
	text   string
}{
	{"conntrack has none", func(c *Case, _ *state.Connection) { c.Connection = nil }, PathNone, "", "conntrack has no such connection"},
	{"an engine carries it", func(c *Case, n *state.Connection) {
		f := n.Flow
		f.Engine, f.In, f.Idle, f.Orig.Packets, f.Reply.Packets = "xdp", "lan1", 3.2, 12, 24
		c.Carried, n.Mark, c.WhyKnown = &f, c.Mark, true
		n.InDevice, n.OutDevice = "br-guest", "eth9"
	}, "xdp", "iifname @xdp oifname @xdp ct mark set ct mark or 0x40000000 return", "By engine xdp, from lan1 to eth0 (pppoe session 7 over vlan 35): 12 packets sent, 24 returned, idle for 3 s"},
	{"the hardware has it", func(_ *Case, n *state.Connection) { n.Status |= state.StatusOffload | state.StatusHardware }, PathHardware, "", "By the hardware"},
	{"fw4's flowtable has it", func(c *Case, n *state.Connection) { n.Status |= state.StatusOffload; c.Table = nil }, PathForeign, "", "isn't ours"},
	{"somebody's has it", func(c *Case, n *state.Connection) {
		n.Status |= state.StatusOffload
		c.Table, c.Others = nil, []string{"ip nat"}
	}, PathForeign, "", "isn't ours (ip nat)"},
	{"ours or another", func(c *Case, n *state.Connection) {
		n.Status |= state.StatusOffload
		c.Others = []string{"ip nat", "inet x"}
	}, "flowtable", "flow add @ft", "ours or that of table ip nat, inet x, and the kernel doesn't tell which"},
	{"our flowtable has it", func(_ *Case, n *state.Connection) { n.Status |= state.StatusOffload }, "flowtable", "flow add @ft", "By the flowtable at hook ingress, from br-lan to eth0 (pppoe session 7 over vlan 35) as computed"},
	{"and counts", func(_ *Case, n *state.Connection) {
		n.Status |= state.StatusOffload
		n.Counted, n.Orig.Packets = true, 5
	}, "flowtable", "flow add @ft", "links: 5 packets sent, 0 returned"},
	{"it is the router's own", func(_ *Case, n *state.Connection) { n.OutDevice = "lo" }, PathSlow, "", "at the router itself"},
	{"nothing is installed", func(c *Case, _ *state.Connection) { c.Table, c.Report.HookReason = nil, "option hook 'off'" }, PathSlow, "", "nothing is accelerated: option hook 'off'"},
	{"the engine can't", func(c *Case, n *state.Connection) {
		n.Mark, c.Why, c.WhyKnown = c.Mark, "its neighbour doesn't answer", true
	}, PathSlow, "", "but its neighbour doesn't answer"},
	{"the engine hasn't yet", func(c *Case, n *state.Connection) { n.Mark = c.Mark }, PathSlow, "", "about to take it"},
	{"the engine has just let it go", func(c *Case, n *state.Connection) { n.Mark, c.WhyKnown = c.Mark, true }, PathSlow, "", "about to take it"},
	{"another protocol", func(_ *Case, n *state.Connection) { n.Proto = "132" }, PathSlow, "meta l4proto != { tcp, udp } return", "only TCP and UDP"},
	{"no reply yet", func(_ *Case, n *state.Connection) { n.Status = 0 }, PathSlow, "ct state != established return", "no packet has come back yet"},
	{"a foreign mark", func(_ *Case, n *state.Connection) { n.Mark = 0x300 }, PathSlow, "ct mark and 0xbfffffff != 0 return", "mark 0x300 is another program's"},
	{"a helper", func(_ *Case, n *state.Connection) { n.Helper = "ftp" }, PathSlow, "ct helper exists return", "helper ftp must see"},
	{"an excluded device in", func(_ *Case, n *state.Connection) { n.InDevice = "tun0" }, PathSlow, `iifname "tun0" return`, "device tun0 stays on the slow path (a tunnel (tun))"},
	{"an excluded device out", func(_ *Case, n *state.Connection) { n.OutDevice = "tun0" }, PathSlow, `oifname "tun0" return`, "device tun0 stays"},
	{"nothing but sets", func(c *Case, _ *state.Connection) { c.Table, c.Report.HookReason = &state.Table{}, "firewall stopped" }, PathSlow, "", "nothing is accelerated: firewall stopped"},
	{"no rule at all", func(c *Case, _ *state.Connection) { c.Table.Rules = c.Table.Rules[:3] }, PathSlow, "", "no rule hands it on"},
	{"TCP is closing", func(_ *Case, n *state.Connection) { n.TCP = "FIN_WAIT" }, PathSlow, "", "TCP state is FIN_WAIT"},
	{"sequence numbers", func(_ *Case, n *state.Connection) { n.Status |= state.StatusSeqAdjust }, PathSlow, "", "sequence numbers"},
	{"a clash", func(_ *Case, n *state.Connection) { n.Status |= state.StatusNATClash }, PathSlow, "", "collided"},
	{"dying", func(_ *Case, n *state.Connection) { n.Status |= state.StatusDying }, PathSlow, "", "it is ending"},
	{"a port that isn't listed", func(_ *Case, n *state.Connection) { n.Out = "eth5" }, PathSlow, "", "port eth5 isn't in the flowtable (nothing is forwarded there)"},
	{"for the flowtable next", func(*Case, *state.Connection) {}, PathSlow, "flow add @ft", doubt},
	{"for an engine next", func(_ *Case, n *state.Connection) { n.InDevice, n.OutDevice, n.Out = "eth9", "br-guest", "eth5" }, PathSlow,
		"iifname @xdp oifname @xdp ct mark set ct mark or 0x40000000 return", "handed on with its next packet"},
	{"no routes", func(_ *Case, n *state.Connection) { n.InDevice, n.OutDevice, n.In, n.Out = "", "", "", "" }, PathSlow, "flow add @ft", `iifname "tun0" return; oifname "tun0" return; iifname @xdp`},
}

func TestExplain(t *testing.T) {
	for _, tt := range explainCases {
		c := explained()
		tt.change(&c, c.Connection)
		got := c.Explain()
		if got.Path != tt.path || got.Rule != tt.rule || !strings.Contains(got.Text, tt.text) || strings.Contains(got.Text, "\n") {
			t.Errorf("%s: %+v\nwant path %q, rule %q, text with %q", tt.what, got, tt.path, tt.rule, tt.text)
		}
		if fast := tt.path != PathNone && tt.path != PathSlow; got.Accelerated() != fast {
			t.Errorf("%s: accelerated %v", tt.what, got.Accelerated())
		}
	}
}

// A rule that this version can't read leaves a doubt, never a wrong answer.
func TestJudgeUnknownRules(t *testing.T) {
	c := explained()
	for _, r := range []state.Rule{
		state.Return.When(state.Is(state.KeyDSCP4, "46")),
		state.Return.When(state.Is(state.KeyCtState, "new")),
		state.Return.When(state.IsNot(state.KeyCtMark, "0/what")),
	} {
		c.Table.Rules = []state.Rule{r, state.Add.When()}
		if j := c.judge(); !j.hands() || j.rule.Verdict != state.Add || len(j.unsure) != 1 {
			t.Errorf("%s: %v, unsure %v", r, j.rule, j.unsure)
		}
	}
}
