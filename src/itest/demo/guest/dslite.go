// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"fastpath/src/itest/topo"
	"fastpath/src/state"
	"fastpath/src/status"
)

// tunnelBytes is the payload of a row of this scenario.
const tunnelBytes = 10_000_000

func dslite(p *page) error {
	v := topo.DSLite
	if err := p.topology(v, "IPv6 to the provider, IPv4 in a DS-Lite tunnel between kernels",
		fmt.Sprintf(dsliteDrawing, topo.Host1v4, topo.Host2v4, topo.Serverv4, topo.Serverv6)); err != nil {
		return err
	}
	show(p.net.Router, "ip", "-6", "-d", "tunnel", "show", v.Tunnel())
	if err := p.run(); err != nil {
		return err
	}
	if err := p.tunnelled(); err != nil {
		return err
	}
	if err := p.stop(); err != nil {
		return err
	}
	heading("The same with an engine on each port")
	p.want = wanted{engine: "xdp"}
	if err := v.WriteConfig("/etc/config", topo.Engine{Kind: p.want.engine, Force: true}); err != nil {
		return err
	}
	show(p.net.Router, "cat", "/etc/config/fastpath")
	if err := p.run(); err != nil {
		return err
	}
	rows, err := p.rows(topo.Serverv4)
	if err != nil {
		return err
	}
	p.statusAfter()
	printTable(rows)
	for _, r := range rows {
		err := r.verdict()
		p.check(err == nil, "engine xdp, %s in the tunnel: %.2f %% took the slow path (want less than %.0f %%)", r.transfer, 100*r.slowShare(), 100*maxSlow)
	}
	return nil
}

// tunnelled sends both families by the flowtable. The kernel decides whether it
// takes IPv4 in IPv6; where it doesn't, the slow path has to carry it and the status to say so.
func (p *page) tunnelled() error {
	heading("Traffic by the flowtable: IPv4 in the tunnel, IPv6 beside it")
	rows, err := p.rows(topo.Serverv4)
	if err != nil {
		return err
	}
	native, err := p.rows(topo.Serverv6)
	if err != nil {
		return err
	}
	p.statusAfter()
	printTable(append(rows, native...))
	doc, err := ask(p.net.Router)
	if err != nil {
		return err
	}
	for _, r := range rows {
		switch share := r.slowShare(); {
		case share < maxSlow:
			p.check(true, "flowtable, %s in the tunnel: %.2f %% took the slow path (want less than %.0f %%)", r.transfer, 100*share, 100*maxSlow)
		case p.want.hook == string(state.HookEarly): // this kernel takes it
			p.check(false, "flowtable, %s in the tunnel: %.2f %% took the slow path (want less than %.0f %%)", r.transfer, 100*share, 100*maxSlow)
		default:
			p.check(share > 0.99 && r.arrived(), "flowtable, %s in the tunnel: %.0f %% took the slow path, as this kernel wants it", r.transfer, 100*min(share, 1))
		}
	}
	for _, r := range native {
		p.check(r.verdict() == nil, "flowtable, %s beside it: %.2f %% took the slow path (want less than %.0f %%)", r.transfer, 100*r.slowShare(), 100*maxSlow)
	}
	if rows[0].slowShare() >= maxSlow {
		why := whyTunnel(doc)
		p.check(why != "", "fastpath status says why: %s", why)
	}
	return nil
}

// rows sends a row each for TCP and UDP, up and down.
func (p *page) rows(addr string) (all []row, err error) {
	for _, udp := range []bool{false, true} {
		for _, up := range []bool{true, false} {
			t := p.transfer(addr, udp, up)
			t.Bytes = tunnelBytes
			r, err := p.carry(t)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// whyTunnel is what the status has to say about the tunnel.
func whyTunnel(doc status.Document) string {
	for _, r := range doc.Report.Ports {
		if r.Name == topo.DSLite.Tunnel() {
			return r.HookReason
		}
	}
	for _, n := range doc.Report.Notices {
		if strings.Contains(n, topo.DSLite.Tunnel()) {
			return n
		}
	}
	return ""
}
