// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"fastpath/src/itest/topo"
	gen "fastpath/src/itest/topo/traffic"
)

// leaves is how long flows may stay on a WAN that is down.
const leaves = time.Second

const twoWANsDrawing = `
  LAN                       router                       provider
  host1 -- lan1 \                  / wan   ------- line  \
                  br-lan - NAT - <                         the server: %s
  host2 -- lan2 /                  \ wan2  ------- line2 /

  host1 is to go by wan, host2 by wan2: mwan3 marks their connections, and routing rules look at the marks.

`

// mwan3 makes what that program makes of one member a WAN and a rule a host:
// a table a WAN with all networks in it, and marks that connections keep.
const mwan3 = `for t in 1 2; do
	ip route add 192.168.1.0/24 dev br-lan table $t
	ip route add 198.51.100.0/24 dev wan table $t
	ip route add 192.0.2.0/24 dev wan2 table $t
done
ip route add default via ` + topo.ProviderWANv4 + ` dev wan table 1
ip route add default via ` + topo.ProviderWAN2v4 + ` dev wan2 table 2
ip rule add pref 1001 iif wan lookup 1
ip rule add pref 1002 iif wan2 lookup 2
ip rule add pref 2001 fwmark 0x100/0x3f00 lookup 1
ip rule add pref 2002 fwmark 0x200/0x3f00 lookup 2
nft -f - <<'END'
table ip mwan3 {
	chain prerouting {
		type filter hook prerouting priority mangle;
		meta mark set ct mark and 0x3f00
		meta mark and 0x3f00 == 0 iifname "wan" meta mark set 0x100
		meta mark and 0x3f00 == 0 iifname "wan2" meta mark set 0x200
		meta mark and 0x3f00 == 0 iifname "br-lan" ip daddr 192.168.1.0/24 meta mark set 0x3f00
		meta mark and 0x3f00 == 0 iifname "br-lan" ip saddr ` + topo.Host1v4 + ` meta mark set 0x100
		meta mark and 0x3f00 == 0 iifname "br-lan" ip saddr ` + topo.Host2v4 + ` meta mark set 0x200
		meta mark and 0x3f00 != 0 ct mark set meta mark
	}
}
END`

func twoWANs(p *page) error {
	if err := p.topology(topo.TwoWANs, "two WANs, each with a default route, NAT, and mwan3's marks", fmt.Sprintf(twoWANsDrawing, topo.Serverv4)); err != nil {
		return err
	}
	if err := p.router(mwan3); err != nil {
		return err
	}
	if err := p.run(); err != nil {
		return err
	}
	heading("Each host has a UDP flow with the server, %d packets a second each way", streamRate)
	var flows [2]*gen.Streaming
	for i, host := range []*gen.Stream{{Client: p.net.Host1}, {Client: p.net.Host2}} {
		host.Server, host.Addr = p.net.Provider, netip.MustParseAddr(topo.Serverv4)
		s, err := p.stream(*host)
		if err != nil {
			return err
		}
		defer s.End()
		flows[i] = s
	}
	if err := p.steady("with both WANs", flows[:]...); err != nil {
		return err
	}
	show(p.net.Router, "fastpath", "flows")
	for i, wan := range []string{topo.RouterWANv4, topo.RouterWAN2v4} {
		n, err := p.offloaded(wan)
		if err != nil {
			return err
		}
		p.check(n == 1, "host%d's flow is in the flowtable, by %s (%d are)", i+1, wan, n)
	}
	if err := p.fail(flows); err != nil {
		return err
	}
	p.statusAfter()
	for _, s := range flows {
		if _, _, err := s.End(); err != nil {
			return err
		}
	}
	return nil
}

// fail takes wan down and looks at both flows.
func (p *page) fail(flows [2]*gen.Streaming) error {
	heading("wan goes down")
	for _, s := range flows {
		s.Begin()
	}
	before, start := flows[1].Up.Packets(), time.Now()
	if _, err := p.net.Router.Sh("ip link set wan down"); err != nil {
		return err
	}
	var gone time.Duration
	for gone == 0 {
		n, err := p.offloaded(topo.RouterWANv4)
		if err != nil {
			return err
		}
		if n == 0 {
			gone = time.Since(start)
		} else if time.Since(start) > time.Minute {
			return fmt.Errorf("a minute after wan went down %d flows are still in the flowtable by it", n)
		}
	}
	time.Sleep(3 * time.Second)
	p.news()
	p.check(gone < leaves, "no flow by wan is in the flowtable %d ms after it went down (want less than %d)", gone.Milliseconds(), leaves.Milliseconds())
	for i, s := range flows {
		up, down := s.Up.Seen(), s.Down.Seen()
		fmt.Printf("   host%d, for 3 s from there on: %d packets up, longest gap %d ms; %d down, longest gap %d ms\n",
			i+1, up.Received, up.Gap.Milliseconds(), down.Received, down.Gap.Milliseconds())
		limit, what := leaves, "goes on by wan2 after"
		if i == 1 {
			limit, what = leaves/4, "stays on wan2, longest gap"
		}
		gap := max(up.Gap, down.Gap)
		p.check(gap < limit, "host%d's flow %s %d ms (want less than %d)", i+1, what, gap.Milliseconds(), limit.Milliseconds())
	}
	sent := int64(time.Since(start).Seconds() * streamRate)
	got := flows[1].Up.Packets() - before
	p.check(got >= sent*98/100, "host2's flow meanwhile: %d of about %d packets arrived (want 98 %%)", got, sent)
	return p.steady("with wan2 alone", flows[:]...)
}

// offloaded is how many connections that the router sends from an address are in the flowtable.
func (p *page) offloaded(from string) (n int, err error) {
	out, err := p.net.Router.Sh("conntrack -L -p udp --reply-dst " + from + " 2>/dev/null || true")
	return strings.Count(out, "OFFLOAD"), err
}
