// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"fastpath/src/itest/topo"
	"fastpath/src/state"
)

// The channel (RFC 6676 has this block for documentation) and its packets: seven
// of MPEG-TS, at 10 Mbit/s.
const (
	channel     = "233.252.0.1"
	channelPort = 5004
	tvPacket    = 7 * 188
	tvRate      = 950        // packets a second
	tvBeside    = 40_000_000 // bytes by TCP meanwhile
	tvTime      = 3 * time.Second
)

const iptvDrawing = `
  LAN                       router                                provider
  host1 (TV box) -- lan1 \                                      / the channel: %s, UDP
                           br-lan - igmpproxy, NAT - wan --- line
  host2          -- lan2 /                                      \ the server: %s

`

// iptvRule lets the channel through, and in for a proxy that copies it, as
// OpenWrt's instructions for igmpproxy and udpxy say.
const iptvRule = `config rule
	option name 'Allow-UDP-igmpproxy'
	option src 'wan'
	option dest 'lan'
	option dest_ip '224.0.0.0/4'
	option proto 'udp'
	option target 'ACCEPT'

config rule
	option name 'Allow-UDP-udpxy'
	option src 'wan'
	option dest_ip '224.0.0.0/4'
	option proto 'udp'
	option target 'ACCEPT'
`

// openwrtGRO is what an OpenWrt kernel starts with: fraglist GRO on every device.
const openwrtGRO = `for port in lan1 lan2 wan; do ethtool -K $port rx-gro-list on; done`

const iptvNFT = `nft insert rule inet fw4 forward_wan ip daddr 224.0.0.0/4 meta l4proto udp counter accept comment '"!fw4: Allow-UDP-igmpproxy"'
nft insert rule inet fw4 input_wan ip daddr 224.0.0.0/4 meta l4proto udp counter accept comment '"!fw4: Allow-UDP-udpxy"'`

func iptv(p *page) error {
	if err := p.topology(topo.Bridge, "a TV box behind an igmpproxy, and a host that downloads", fmt.Sprintf(iptvDrawing, channel, topo.Serverv4)); err != nil {
		return err
	}
	if err := p.configure("firewall", iptvRule); err != nil {
		return err
	}
	for _, script := range []string{iptvNFT, openwrtGRO} {
		if err := p.router(script); err != nil {
			return err
		}
	}
	proxy, err := startProxy(p.net.Router, "wan", "br-lan")
	if err != nil {
		return err
	}
	defer proxy.close()
	fmt.Println("   The router's multicast proxy:", proxy)
	if err := p.run(); err != nil {
		return err
	}
	heading("How wan receives")
	if err := p.receivesForTV(); err != nil {
		return err
	}
	heading("The channel at %.1f Mbit/s, while host2 downloads over TCP and some time after", tvRate*tvPacket*8/1e6)
	start := time.Now()
	tv, err := watch(p.net.Provider, p.net.Host1)
	if err != nil {
		return err
	}
	defer tv.stop()
	t := p.transfer(topo.Serverv4, false, false)
	t.Client, t.Bytes = p.net.Host2, tvBeside
	if _, err := p.accelerated(t); err != nil {
		return err
	}
	time.Sleep(tvTime - time.Since(start))
	seen, err := tv.stop()
	if err != nil {
		return err
	}
	p.check(seen.lost == 0 && seen.outOfOrder == 0 && seen.received > tvRate, "the channel, beside TCP: %d packets, %d lost, %d out of order (want none of both)",
		seen.received, seen.lost, seen.outOfOrder)
	p.statusAfter()
	return nil
}

// receivesForTV shows by which receive mode the channel comes in and why, and
// judges it: fraglist GRO makes TV stutter.
func (p *page) receivesForTV() error {
	doc, err := ask(p.net.Router)
	if err != nil {
		return err
	}
	mode, reason := receives(doc, "wan")
	features, err := p.net.Router.Sh("ethtool -k wan | grep -E '^(generic-receive-offload|rx-gro-list):'")
	fmt.Print(indent(fmt.Sprintf("receive %s: %s\n%s", mode, reason, features)))
	if err != nil {
		return err
	}
	if doc.Report.Hook == state.HookEarly {
		// Bulks keep the order of the packets that leave by one port.
		p.check(mode == "bulk" && strings.Contains(features, "rx-gro-list: off"), "wan receives by %s: %s", mode, reason)
		return nil
	}
	p.check(mode == "gro" && strings.Contains(reason, "multicast") && strings.Contains(features, "rx-gro-list: off"),
		"wan receives by %s, not by the fraglist GRO that it had: %s", mode, reason)
	return nil
}
