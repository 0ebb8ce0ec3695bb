// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"time"

	"fastpath/src/itest/topo"
	gen "fastpath/src/itest/topo/traffic"
	"fastpath/src/testkit/vm"
)

// roams is how long traffic to a host that moved may be away.
const roams = time.Second

const roamingDrawing = `
  LAN                          router                     provider
                        lan1 \
  host1 (one MAC, its   - - -  br-lan - NAT - wan ------- line, the server: %s
  cable goes from lan1  lan2 /
  to lan2 and back)
`

// station gives host1 a second cable, to lan2. Like a Wi-Fi station it has one
// address and one MAC, wherever it is. The other cable is a disabled port of its
// bridge (state 0), not down: the kernel takes its time over links that come up,
// and over a bridge none of whose ports is alive, hence the dummy.
const station = `
	mac=$(cat /sys/class/net/eth0/address)
	ip link add wlan0 type bridge forward_delay 0 mcast_snooping 0
	ip addr flush dev eth0
	ip link set wlan0 address $mac up
	ip link add awake type dummy
	ip link set awake master wlan0 up
	for cable in eth0 eth1; do
		ip link set $cable master wlan0 up
		until bridge link set dev $cable state 3 2>/dev/null; do sleep 0.1; done
		bridge link set dev $cable state 0
	done
	bridge link set dev eth0 state 3
	ip addr add ` + topo.Host1v4 + `/24 dev wlan0
	ip addr add ` + topo.Host1v6 + `/64 dev wlan0 nodad
	ip route replace default via ` + topo.RouterLANv4 + ` dev wlan0
	ip -6 route replace default via ` + topo.RouterLANv6 + ` dev wlan0`

func roaming(p *page) error {
	if err := p.topology(topo.Bridge, "a LAN with two ports, NAT, a plain WAN", fmt.Sprintf(roamingDrawing, topo.Serverv4)); err != nil {
		return err
	}
	if _, err := p.net.Host2.Sh("ip link set eth0 down netns " + p.net.Host1.Name + " name eth1"); err != nil {
		return err
	}
	if _, err := p.net.Host1.Sh(station); err != nil {
		return err
	}
	if err := p.run(); err != nil {
		return err
	}
	heading("host1 has a UDP flow with the server, %d packets a second each way", streamRate)
	s, err := p.stream(gen.Stream{Client: p.net.Host1, Server: p.net.Provider, Addr: netip.MustParseAddr(topo.Serverv4)})
	if err != nil {
		return err
	}
	defer s.End()
	if err := p.steady("before host1 moves", s); err != nil {
		return err
	}
	for _, move := range []struct{ from, to, cable, other string }{
		{"lan1", "lan2", "eth0", "eth1"}, {"lan2", "lan1", "eth1", "eth0"},
	} {
		if err := p.roam(s, move.from, move.to, fmt.Sprintf("bridge link set dev %[1]s state 0; bridge fdb flush dev wlan0 brport %[1]s; bridge link set dev %[2]s state 3", move.cable, move.other)); err != nil {
			return err
		}
	}
	_, _, err = s.End()
	return err
}

// roam moves host1 and says for how long its traffic was away.
func (p *page) roam(s *gen.Streaming, from, to, how string) error {
	heading("host1 moves from %s to %s", from, to)
	s.Begin()
	if _, err := p.net.Host1.Sh(how); err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	up, down := s.Up.Seen(), s.Down.Seen()
	fmt.Printf("   for 3 s from there on: %d packets up, longest gap %d ms; %d down, longest gap %d ms\n",
		up.Received, up.Gap.Milliseconds(), down.Received, down.Gap.Milliseconds())
	if err := p.router("bridge fdb show br br-lan | grep " + vm.NICAddr(0)); err != nil {
		return err
	}
	p.news()
	gap := max(up.Gap, down.Gap)
	p.check(gap < roams, "host1 moves to %s: its traffic was away for %d ms (want less than %d)", to, gap.Milliseconds(), roams.Milliseconds())
	return p.steady("at "+to, s)
}
