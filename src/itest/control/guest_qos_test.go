// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"fastpath/src/itest/topo"
)

// What passes which queue is measured with the queues' own counters: in each
// place of a router stands a qdisc that limits nothing in practice.

// tcPlace is a queue in the router that a transfer should pass, and how it is made.
type tcPlace struct {
	name  string
	round int  // what is measured together: packets from an ifb pass a flowtable at ingress by
	up    bool // it is on the way of what host1 sends
	lines []string
	at    string // the device with the counting root qdisc
}

// shaper is a root qdisc that counts as one, of a different kind in each place.
func shaper(kind, device string) []string {
	switch kind {
	case "htb":
		return []string{"qdisc replace dev " + device + " root handle 1: htb default 1",
			"class add dev " + device + " parent 1: classid 1:1 htb rate 1gbit quantum 1514"}
	case "fq":
		return []string{"qdisc replace dev " + device + " root fq maxrate 1gbit"}
	}
	return []string{"qdisc replace dev " + device + " root " + kind + " bandwidth 1gbit"}
}

// redirected sends what a device receives through its ifb with cake, as sqm-scripts does.
func redirected(device string) []string {
	return append(shaper("cake", "ifb4"+device),
		"qdisc add dev "+device+" handle ffff: ingress",
		"filter add dev "+device+" parent ffff: protocol all matchall action mirred egress redirect dev ifb4"+device)
}

// tcPlaces are those of variant PPPoEVLAN.
var tcPlaces = []tcPlace{
	{"cake on the port", 0, true, shaper("cake", "wan"), "wan"},
	{"htb on the VLAN", 0, true, shaper("htb", "wan.35"), "wan.35"},
	{"fq on PPPoE", 0, true, shaper("fq", "pppoe-wan"), "pppoe-wan"},
	{"ifb of the LAN port", 1, true, redirected("lan1"), "ifb4lan1"},
	{"ifb of the bridge", 2, true, redirected("br-lan"), "ifb4br-lan"},
	{"htb on the LAN port", 0, false, shaper("htb", "lan1"), "lan1"},
	{"cake on the bridge", 0, false, shaper("cake", "br-lan"), "br-lan"},
	{"ifb of the port", 1, false, redirected("wan"), "ifb4wan"},
	{"ifb of the VLAN", 2, false, redirected("wan.35"), "ifb4wan.35"},
	{"ifb of PPPoE", 2, false, redirected("pppoe-wan"), "ifb4pppoe-wan"},
}

// tcDevices are the devices below and above WAN and LAN; each has an ifb.
var tcDevices = []string{"lan1", "br-lan", "wan", "wan.35", "pppoe-wan"}

// buildQoS makes the router with an ifb for each device.
func buildQoS(t *testing.T) *router {
	t.Helper()
	r := build(t, topo.PPPoEVLAN)
	var lines []string
	for _, device := range tcDevices {
		lines = append(lines, "link add ifb4"+device+" type ifb", "link set ifb4"+device+" up")
	}
	r.Router.Run(t, "ip -batch - <<'X'\n"+strings.Join(lines, "\n")+"\nX")
	return r
}

// tc hands lines to tc.
func (r *router) tc(t *testing.T, lines ...string) {
	t.Helper()
	r.Router.Run(t, "tc -batch - <<'X'\n"+strings.Join(lines, "\n")+"\nX")
}

// unshape takes away what was put there: of what isn't, tc says so.
func (r *router) unshape(t *testing.T) {
	t.Helper()
	var lines []string
	for _, device := range tcDevices {
		lines = append(lines, "qdisc del dev "+device+" root", "qdisc del dev "+device+" ingress")
	}
	r.Router.Run(t, "tc -force -batch - 2>/dev/null <<'X' || true\n"+strings.Join(lines, "\n")+"\nX")
}

// passedBy are the places that a kernel's way passes by. It is what plan's
// matrix says in other words.
func passedBy(way string) map[string]bool {
	by := map[string]bool{}
	add := func(names ...string) {
		for _, name := range names {
			by[name] = true
		}
	}
	if way == "slow path" {
		return by
	}
	add("ifb of the bridge", "cake on the bridge", "ifb of the VLAN", "ifb of PPPoE")
	if early() { // 7.3 writes the headers of VLAN and PPPoE into the packet itself
		add("htb on the VLAN", "fq on PPPoE")
	}
	switch way {
	case "early_ingress":
		add("ifb of the LAN port", "ifb of the port")
	case "xdp", "afxdp":
		for _, p := range tcPlaces {
			add(p.name)
		}
	}
	return by
}

var (
	rootSent   = regexp.MustCompile(`(?m)^qdisc \S+ \S+ dev (\S+) root.*\n Sent (\d+) bytes`)
	filterSent = regexp.MustCompile(`Sent (\d+) bytes`)
)

// egressHook is the name of a counter at tc egress of wan among those of tcSent.
const egressHook = "tc egress of wan"

// tcSent is what each device's root qdisc, or the filter at wan's egress, has seen, in bytes.
func (r *router) tcSent(t *testing.T) map[string]int64 {
	t.Helper()
	sent := map[string]int64{}
	add := func(name, digits string) {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sent[name] = n
	}
	out := r.Router.Run(t, "tc -s qdisc show; tc -s filter show dev wan egress")
	for _, m := range rootSent.FindAllStringSubmatch(out, -1) {
		add(m[1], m[2])
	}
	if _, filter, ok := strings.Cut(out, "\nfilter "); ok {
		add(egressHook, filterSent.FindStringSubmatch(filter)[1])
	}
	return sent
}

const measuredBytes = 400_000

// measured runs one UDP transfer and says which share of its bytes each counter saw.
func (r *router) measured(t *testing.T, up bool) map[string]float64 {
	t.Helper()
	var before map[string]int64
	c := r.transfer(topo.Serverv4, true, up, measuredBytes)
	c.Steady = func() error {
		before = r.tcSent(t)
		return nil
	}
	result, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	share := map[string]float64{}
	for name, n := range r.tcSent(t) {
		share[name] = float64(n-before[name]) / float64(result.Sent)
	}
	return share
}

// cells measures every place for one way.
func (r *router) cells(t *testing.T, way string) {
	t.Helper()
	by := passedBy(way)
	rounds := 3
	if len(by) == 0 || len(by) == len(tcPlaces) {
		rounds = 1 // nothing changes another place's count
	}
	for round := range rounds {
		var lines []string
		for _, p := range tcPlaces {
			if p.round%rounds == round {
				lines = append(lines, p.lines...)
			}
		}
		r.tc(t, lines...)
		if r.daemon != nil {
			r.settled(t)
		}
		for _, up := range []bool{true, false} {
			share := r.measured(t, up)
			for _, p := range tcPlaces {
				if p.round%rounds != round || p.up != up {
					continue
				}
				saw := share[p.at]
				t.Logf("%s: %s saw %.0f %%", way, p.name, 100*saw)
				if by[p.name] && saw > 0.1 || !by[p.name] && saw < 0.95 {
					t.Errorf("%s: %s saw %.0f %% of the packets", way, p.name, 100*saw)
				}
			}
		}
		r.unshape(t)
	}
}

// setHook writes anew the router's file with this option hook.
func (r *router) setHook(t *testing.T, hook string) {
	t.Helper()
	r.configure(t, topo.Engine{})
	r.rewrite(t, "fastpath", "option enabled '1'", "option enabled '1'\n\toption hook '"+hook+"'")
}

// TestQoS is one router for all of it: to make one takes longer than to measure.
func TestQoS(t *testing.T) {
	r := buildQoS(t)
	t.Run("matrix", r.matrix)
	t.Run("shaper", r.shaperComesAndGoes)
	t.Run("rule", r.dscpRule)
}

// matrix: what plan's matrix says is what the kernel does. The daemon makes the
// flowtable and is then killed, so that it doesn't look at the qdiscs.
func (r *router) matrix(t *testing.T) {
	r.cells(t, "slow path")
	ways := []string{"ingress"}
	if early() {
		ways = append(ways, "early_ingress")
	}
	for _, way := range ways {
		r.setHook(t, way)
		r.start(t)
		r.want(t, lowest(topo.PPPoEVLAN)...)
		r.stop(t, syscall.SIGKILL)
		if way == "early_ingress" {
			r.bulks(t)
		}
		r.cells(t, way)
	}
}

// bulks: at early_ingress a qdisc that may be passed by unqueued gets bulks,
// which its egress hook doesn't see, and one that may not gets packets.
func (r *router) bulks(t *testing.T) {
	t.Helper()
	r.tc(t, "qdisc add dev wan clsact", "filter add dev wan egress matchall action gact pass")
	for _, c := range []struct {
		qdisc string
		seen  bool
	}{{"fq_codel", false}, {"cake", true}, {"fq", true}} {
		r.tc(t, "qdisc replace dev wan root "+c.qdisc)
		share := r.measured(t, true)[egressHook]
		t.Logf("early_ingress: the egress hook with %s saw %.0f %%", c.qdisc, 100*share)
		if c.seen != (share > 0.95) || !c.seen && share > 0.1 {
			t.Errorf("early_ingress: the egress hook with %s saw %.0f %% of the packets", c.qdisc, 100*share)
		}
	}
	r.tc(t, "qdisc del dev wan clsact", "qdisc del dev wan root")
}

const sqmConfig = `config queue 'wan'
	option enabled '1'
	option interface 'wan'
`

// shaperComesAndGoes: a shaper keeps its packets, whatever this kernel's
// flowtable would do, and status names it.
func (r *router) shaperComesAndGoes(t *testing.T) {
	if err := os.WriteFile(filepath.Join(r.config(), "sqm"), []byte(sqmConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	r.setHook(t, "early_ingress")
	r.start(t)
	r.want(t, lowest(topo.PPPoEVLAN)...)

	r.tc(t, shaper("cake", "pppoe-wan")...)
	if early() {
		r.reason(t, "cake on pppoe-wan limits what it sends")
	}
	r.keeps(t, true, "pppoe-wan")
	r.unshape(t)
	r.want(t, lowest(topo.PPPoEVLAN)...)
	r.accelerated(t, r.transfer(topo.Serverv4, true, true, 1_000_000))

	r.tc(t, redirected("wan")...)
	r.reason(t, "cake on ifb4wan (sqm-scripts) limits what wan receives (by the slow path)")
	before := r.slowBytes(t)
	r.keeps(t, false, "ifb4wan")
	if slow := r.slowBytes(t) - before; slow < measuredBytes {
		t.Errorf("%d bytes took the slow path: what an ifb hands back meets a flowtable after all", slow)
	}
	if hook := r.status(t).Report.Hook; hook != "ingress" {
		t.Errorf("hook %s, behind which the ifb is", hook)
	}
	r.unshape(t)
	r.eventually(t, "the earliest hook again", func() bool { return !early() || r.status(t).Report.Hook == "early_ingress" })
	r.settled(t)
}

// keeps measures, once there is nothing left to do, that a qdisc sees the flow.
func (r *router) keeps(t *testing.T, up bool, device string) {
	t.Helper()
	r.settled(t)
	if share := r.measured(t, up)[device]; share < 0.95 {
		t.Errorf("the qdisc of %s saw %.0f %% of the packets", device, 100*share)
	}
}

func (r *router) portOf(t *testing.T, name string) portStatus {
	t.Helper()
	for _, p := range r.portStatus(t) {
		if p.Name == name {
			return p
		}
	}
	return portStatus{}
}

// reason waits until status says so about wan.
func (r *router) reason(t *testing.T, words string) {
	t.Helper()
	r.eventually(t, words, func() bool { return strings.Contains(r.portOf(t, "wan").HookReason, words) })
}

const dscpRule = `config rule
	option name 'games'
	option src 'lan'
	option dest 'wan'
	option proto 'udp'
	option dest_port '5000'
	option family 'ipv4'
	option target 'DSCP'
	option set_dscp 'EF'

`

// fw4DSCP is that rule as fw4 has it in the kernel.
const fw4DSCP = `nft -f - <<'X'
table inet fw4 {
	chain mangle_forward {
		type filter hook forward priority mangle; policy accept;
		iifname "br-lan" oifname "pppoe-wan" udp dport 5000 counter ip dscp set ef comment "!fw4: games"
	}
}
X`

// dscpRule: what a DSCP rule of fw4's matches is left to it, and nothing else.
func (r *router) dscpRule(t *testing.T) {
	r.rewrite(t, "firewall", "config defaults", dscpRule+"config defaults")
	r.Router.Run(t, fw4DSCP)
	r.start(t)
	r.want(t, lowest(topo.PPPoEVLAN)...)
	before := r.slowBytes(t)
	r.measured(t, true)
	if slow := r.slowBytes(t) - before; slow < measuredBytes {
		t.Errorf("%d of %d bytes passed fw4's rule", slow, measuredBytes)
	}
	c := r.transfer(topo.Serverv4, true, true, 1_000_000)
	c.Port++
	r.accelerated(t, c)
	for _, n := range r.status(t).Report.Notices {
		if strings.Contains(n, "DSCP") {
			t.Errorf("a notice about a rule that the configuration explains: %s", n)
		}
	}
}
