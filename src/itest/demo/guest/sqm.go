// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"fastpath/src/itest/topo"
	gen "fastpath/src/itest/topo/traffic"
	"fastpath/src/state"
	"fastpath/src/status"
)

// What the line is shaped to, in Mbit/s, and the least of it that a transfer gets.
const (
	shapedUp, shapedDown = 10, 20
	leastShaped          = 0.85
	mostShaped           = 1.02 // a burst at the start
)

const sqmDrawing = `
  LAN                  router                                    provider
  host1 -- lan1 \                       cake: %d Mbit/s out
                  br-lan - NAT - wan ---------------------------- line, the server: %s
  host2 -- lan2 /                       ifb4wan, cake: %d Mbit/s in

`

// sqmConfig is what LuCI's page for sqm-scripts writes.
const sqmConfig = `config queue 'eth1'
	option enabled '1'
	option interface 'wan'
	option download '%d000'
	option upload '%d000'
	option qdisc 'cake'
	option script 'piece_of_cake.qos'
`

// sqmScript is what piece_of_cake.qos makes of that.
const sqmScript = `tc qdisc replace dev wan root cake bandwidth %dMbit besteffort
ip link add ifb4wan type ifb
tc qdisc add dev wan handle ffff: ingress
tc qdisc add dev ifb4wan root cake bandwidth %dMbit besteffort
ip link set dev ifb4wan up
tc filter add dev wan parent ffff: protocol all matchall action mirred egress redirect dev ifb4wan`

func sqm(p *page) error {
	if err := p.topology(topo.Bridge, "a plain WAN, shaped as sqm-scripts does it", fmt.Sprintf(sqmDrawing, shapedUp, topo.Serverv4, shapedDown)); err != nil {
		return err
	}
	if err := p.configure("sqm", fmt.Sprintf(sqmConfig, shapedDown, shapedUp)); err != nil {
		return err
	}
	if err := p.router(fmt.Sprintf(sqmScript, shapedUp, shapedDown)); err != nil {
		return err
	}
	// tc ingress comes after early_ingress: what must pass the ifb can't go by it.
	p.want.hook = string(state.HookIngress)
	if err := p.run(); err != nil {
		return err
	}
	heading("Traffic through the shaper")
	for _, up := range []bool{true, false} {
		if err := p.shaped(up); err != nil {
			return err
		}
	}
	p.statusAfter()
	doc, err := ask(p.net.Router)
	if err != nil {
		return err
	}
	p.names(doc, "ifb4wan")
	return p.shapedAgainstEngine()
}

// shaped sends TCP one way and looks whether the shaper saw it and held its rate.
func (p *page) shaped(up bool) error {
	t := p.transfer(topo.Serverv4, false, up)
	device, rate := "ifb4wan", float64(shapedDown)
	if up {
		device, rate = "wan", shapedUp
	}
	t.Bytes = int64(rate) * 1_000_000 / 8 * 5 // five seconds
	before, err := p.sent(device)
	if err != nil {
		return err
	}
	r, err := p.carry(t)
	if err != nil {
		return err
	}
	after, err := p.sent(device)
	if err != nil {
		return err
	}
	if err := p.router("tc -s qdisc show dev " + device + " | grep -A1 '^qdisc cake'"); err != nil {
		return err
	}
	p.judge(t, r)
	saw := float64(after-before) / float64(r.result.Received)
	p.check(saw > 0.99, "%s: cake on %s saw %.0f %% of its bytes (with headers; want at least 99 %%)", t, device, 100*saw)
	got := r.mbits()
	p.check(got < mostShaped*rate && got > leastShaped*rate, "%s: %.1f Mbit/s of payload through %.0f (want %.0f %% to %.0f %%)",
		t, got, rate, 100*leastShaped, 100*mostShaped)
	return nil
}

// acknowledged is more than a TCP acknowledgement has without data, in bytes of IP.
const acknowledged = 100

// judge says which path a transfer took. What comes out of an ifb is past every
// flowtable: of a transfer up these are the acknowledgements.
func (p *page) judge(t gen.Transfer, r row) {
	if t.Up {
		each := r.slow.bytes / max(r.slow.packets, 1)
		p.check(r.arrived() && each < acknowledged && r.slowShare() < 5*maxSlow,
			"%s: its data was accelerated; %d packets of %d bytes took the slow path, its acknowledgements, by the ifb", t, r.slow.packets, each)
		return
	}
	p.check(r.arrived(), "%s: %.0f %% took the slow path, as after every ifb", t, 100*min(r.slowShare(), 1))
}

var sentBytes = regexp.MustCompile(`qdisc cake .*\n Sent (\d+) bytes`)

// sent is what cake on a device has let through.
func (p *page) sent(device string) (int64, error) {
	out, err := p.net.Router.Sh("tc -s qdisc show dev " + device)
	m := sentBytes.FindStringSubmatch(out)
	if err != nil || m == nil {
		return 0, fmt.Errorf("no cake on %s: %v: %s", device, err, out)
	}
	return strconv.ParseInt(m[1], 10, 64)
}

// names checks that the status gives the shaper as a reason.
func (p *page) names(doc status.Document, qdisc string) {
	words := []string{doc.Report.HookReason}
	for _, r := range doc.Report.Ports {
		words = append(words, r.HookReason, r.ReceiveReason)
	}
	all := strings.Join(words, "\n")
	i := strings.Index(all, "cake on "+qdisc)
	said := "nothing"
	if i >= 0 {
		said, _, _ = strings.Cut(all[i:], "\n")
	}
	p.check(i >= 0, "fastpath status names the shaper: %s", said)
}

// shapedAgainstEngine asks for an engine, which would pass every queue by.
func (p *page) shapedAgainstEngine() error {
	heading("An engine would pass the shaper by: what if the owner asks for one?")
	if err := p.configure("fastpath", "config port\n\tlist network 'lan'\n\toption engine 'xdp'\n\n"+
		"config port\n\toption device 'wan'\n\toption engine 'xdp'\n"); err != nil {
		return err
	}
	if err := p.reload(); err != nil {
		return err
	}
	doc, err := p.until("the engine's refusal", func(d status.Document) bool {
		engine, why := engineOf(d, "wan")
		return engine != "xdp" && strings.Contains(why, "cake")
	})
	if err != nil {
		return err
	}
	engine, why := engineOf(doc, "wan")
	p.check(true, "option engine 'xdp' on wan is refused, %s carries on: %s", engine, why)
	return nil
}

func engineOf(doc status.Document, port string) (engine, why string) {
	for _, r := range doc.Report.Ports {
		if r.Name == port {
			return r.Engine, r.EngineReason
		}
	}
	return "", ""
}
