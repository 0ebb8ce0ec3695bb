// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/itest/topo"
	"fastpath/src/itest/topo/traffic"
	"fastpath/src/testkit"
)

// The tests named Gap run in virtual time. How long traffic may be away because
// of what fastpath does, or doesn't: beyond what it takes without fastpath.
const awayMost = time.Second

// oneKernel: what the kernel has no part in is shown on one.
func oneKernel(t *testing.T) bool {
	t.Log("this runs on 6.12")
	return os.Getenv("KERNEL") == "6.12"
}

// stream is a UDP flow of both ways, at 200 packets a second, that runs until the test ends.
func (r *router) stream(t *testing.T, client *testkit.Netns, addr string, port uint16) *traffic.Streaming {
	t.Helper()
	s, err := traffic.Stream{Client: client, Server: r.Provider, Addr: netip.MustParseAddr(addr), Port: port,
		Rate: 200, Size: 200}.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, _, err := s.End(); err != nil {
			t.Error(err)
		}
	})
	r.flowing(t, s)
	return s
}

// flowing waits for packets of both directions.
func (r *router) flowing(t *testing.T, s *traffic.Streaming) {
	t.Helper()
	s.Begin()
	defer func() {
		if t.Failed() {
			t.Logf("up %+v, down %+v\n%s", s.Up.Seen(), s.Down.Seen(), r.Router.Run(t, "ip route; ip -6 route; ip neigh; grep port=500 /proc/net/nf_conntrack || true; nft list table inet slow"))
			t.Log(r.Provider.Run(t, "ip route; ip neigh; nft list ruleset; grep port=500 /proc/net/nf_conntrack || true"))
		}
	}()
	r.eventually(t, "packets both ways", func() bool {
		return s.Up.Seen().Received > 20 && s.Down.Seen().Received > 20
	})
}

// gap is how long s was away at most, from when do begins until two seconds
// after it. It must be back then.
func (r *router) gap(t *testing.T, s *traffic.Streaming, what string, do func()) time.Duration {
	t.Helper()
	s.Begin()
	do()
	time.Sleep(2 * time.Second)
	up, down := s.Up.Seen(), s.Down.Seen()
	t.Logf("%s: longest gap up %v, down %v", what, up.Gap.Round(time.Millisecond), down.Gap.Round(time.Millisecond))
	r.flowing(t, s)
	return max(up.Gap, down.Gap)
}

// away is gap that has to be short.
func (r *router) away(t *testing.T, s *traffic.Streaming, what string, do func()) {
	t.Helper()
	if gap := r.gap(t, s, what, do); gap > awayMost {
		t.Errorf("%s: traffic was away for %v", what, gap)
	}
}

// fast waits until a stream takes the fast path: of 100 packets, one at most is slow.
func (r *router) fast(t *testing.T, s *traffic.Streaming, what string) {
	t.Helper()
	var slow, packets int64
	defer func() {
		if t.Failed() {
			t.Logf("%s: %d of %d packets took the slow path\n%s", what, slow, packets,
				r.Router.Run(t, "nft list table inet fastpath; ip route; ip rule; grep port=5 /proc/net/nf_conntrack || true"))
		}
	}()
	r.eventually(t, what+": on the fast path", func() bool {
		before := r.slowPackets(t)
		s.Begin()
		time.Sleep(300 * time.Millisecond)
		packets = s.Up.Seen().Received + s.Down.Seen().Received
		slow = r.slowPackets(t) - before
		return packets > 100 && slow*100 <= packets
	})
}

var packetCounter = regexp.MustCompile(`counter packets (\d+)`)

func (r *router) slowPackets(t *testing.T) int64 {
	t.Helper()
	return packetsOf(t, r.Router, "nft list table inet slow")
}

// packetsOf sums the counters of rules that a command lists.
func packetsOf(t *testing.T, ns *testkit.Netns, list string) (sum int64) {
	t.Helper()
	for _, m := range packetCounter.FindAllStringSubmatch(ns.Run(t, list), -1) {
		n, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// arrivals counts, at the provider, what comes in for a UDP port by each line.
func (r *router) countArrivals(t *testing.T) {
	t.Helper()
	// A connection that comes back to the first line is answered there again.
	r.Provider.Run(t, `nft add rule ip6 second in iifname line ct mark set 0
		for d in line line2; do nft "table inet $d { chain in { type filter hook prerouting priority -300; iifname $d udp dport 5000-5009 counter; }; }"; done`)
}

// by waits until all packets of s arrive by a line, and returns how long that took.
func (r *router) by(t *testing.T, s *traffic.Streaming, line string) time.Duration {
	t.Helper()
	other := map[string]string{"line": "line2", "line2": "line"}[line]
	return r.eventually(t, "all packets come by "+line, func() bool {
		before := packetsOf(t, r.Provider, "nft list table inet "+other)
		s.Begin()
		time.Sleep(200 * time.Millisecond)
		return s.Up.Seen().Received > 20 && packetsOf(t, r.Provider, "nft list table inet "+other) == before
	})
}

// station gives host1 the cable of host2 as well: one host at two ports of the
// router's bridge, at one of them at a time.
func (r *router) station(t *testing.T) {
	t.Helper()
	r.Host2.Run(t, "ip link set eth0 down netns "+r.Host1.Name+" name eth1")
	t.Cleanup(func() { r.Host1.Run(t, "ip link set eth1 down nomaster netns "+r.Host2.Name+" name eth0") })
	r.Host1.Run(t, `mac=$(cat /sys/class/net/eth0/address)
		ip link add radio type bridge forward_delay 0 mcast_snooping 0
		ip addr flush dev eth0; ip -6 route flush dev eth0
		ip link set radio address $mac up
		ip link set eth0 master radio
		ip link set eth1 master radio down
		ip addr add `+topo.Host1v4+`/24 dev radio
		ip addr add `+topo.Host1v6+`/64 dev radio nodad
		ip route replace default via `+topo.RouterLANv4+`
		ip route replace default via `+topo.RouterLANv6)
	// The host's own search for its router, once a second, isn't what is measured.
	mac := strings.TrimSpace(r.Router.Run(t, "cat /sys/class/net/br-lan/address"))
	for _, addr := range []string{topo.RouterLANv4, topo.RouterLANv6} {
		r.Host1.Run(t, "ip neigh replace "+addr+" dev radio nud permanent lladdr "+mac)
		// The router has to find the host instead: it learns no flow whole to a host whose MAC it doesn't know yet.
		r.Host1.Run(t, "for i in $(seq 20); do ping -c 1 -W 1 "+addr+" >/dev/null && exit 0; done; exit 1")
	}
}

// TestGapRoaming: a host that moves to another port of the bridge takes its
// flows along. All are learnt anew, once; neither a second look nor a restart
// does that again.
func TestGapRoaming(t *testing.T) {
	r := build(t, topo.Bridge)
	r.station(t)
	there, back := "ip link set eth0 down; ip link set eth1 up", "ip link set eth1 down; ip link set eth0 up"
	s := r.stream(t, r.Host1, topo.Serverv4, 5000)
	plain := r.gap(t, s, "without fastpath", func() { r.Host1.Run(t, there) })
	r.Host1.Run(t, back)
	r.start(t)
	r.want(t, lowest(topo.Bridge)...)
	s6 := r.stream(t, r.Host1, topo.Serverv6, 5001)
	for _, move := range []string{there, back} {
		r.fast(t, s, "before the move")
		r.fast(t, s6, "before the move, IPv6")
		s6.Begin()
		gap := r.gap(t, s, "with fastpath", func() { r.Host1.Run(t, move) })
		most := max(plain, s6.Up.Seen().Gap) + awayMost // the host's own link takes up to a second, which it sends nothing in
		if gap > most {
			t.Errorf("%s: away for %v, without fastpath for %v", move, gap, plain)
		}
		if gap := s6.Down.Seen().Gap; gap > most {
			t.Errorf("%s: IPv6 was away for %v", move, gap)
		}
	}
	r.fast(t, s, "after the moves")
	if n := strings.Count(r.log.String(), "install table inet fastpath"); n < 3 || n > 5 {
		t.Errorf("the table was installed %d times, want at the start and for each move:\n%s", n, r.log.String())
	}
	r.settled(t)
	r.stop(t, syscall.SIGKILL)
	r.start(t)
	r.settled(t)
	if strings.Contains(r.log.String(), "install table inet fastpath") {
		t.Errorf("a restart learns all flows anew:\n%s", r.log.String())
	}
}

// TestGapWANDown: flows of a WAN that goes down leave by the other one, and
// return with it.
func TestGapWANDown(t *testing.T) {
	r := build(t, topo.TwoWANs)
	r.countArrivals(t)
	r.start(t)
	r.settled(t)
	for _, addr := range []string{topo.Serverv4, topo.Serverv6} {
		s := r.stream(t, r.Host1, addr, 5000)
		r.fast(t, s, addr)
		r.by(t, s, "line")
		r.away(t, s, addr+": WAN goes down", func() { r.Router.Run(t, "ip link set wan down") })
		r.by(t, s, "line2")
		r.fast(t, s, addr+" by the other WAN")
		r.away(t, s, addr+": WAN comes back", func() {
			r.Router.Run(t, "ip link set wan up")
			if err := r.Address(); err != nil {
				t.Fatal(err)
			}
		})
		r.by(t, s, "line")
		r.fast(t, s, addr+" by the first WAN again")
	}
	r.settled(t)
}

// TestGapFailover: the WAN stays up and is dead behind the modem. When the default
// route moves, so do the flows; also from a WAN that is a bridge, whose flows
// the kernel never looks after.
func TestGapFailover(t *testing.T) {
	r := build(t, topo.TwoWANs)
	r.countArrivals(t)
	r.bridgeWAN(t)
	r.start(t)
	r.want(t, "lan1", "lan2", "wan", "wan2")
	r.settled(t)
	for family, c := range map[string]struct{ addr, gateway string }{
		"-4": {topo.Serverv4, topo.ProviderWAN2v4}, "-6": {topo.Serverv6, topo.ProviderWAN2v6},
	} {
		s := r.stream(t, r.Host1, c.addr, 5000)
		r.fast(t, s, c.addr)
		r.by(t, s, "line")
		r.away(t, s, c.addr+": the line is dead and the default route moves", func() {
			r.Provider.Run(t, "nft add rule inet line in iifname line udp dport 5000 drop")
			r.Router.Run(t, "ip "+family+" route add default via "+c.gateway+" dev wan2 metric 5")
		})
		r.by(t, s, "line2")
		r.fast(t, s, c.addr+" by the other WAN")
		r.Provider.Run(t, "nft flush chain inet line in; nft add rule inet line in iifname line udp dport 5000-5009 counter")
		r.Router.Run(t, "ip "+family+" route del default via "+c.gateway+" dev wan2 metric 5")
		r.by(t, s, "line")
		s.End() // its packets are counted, too
	}
}

// bridgeWAN puts wan into a bridge of its own, as some modems want it.
func (r *router) bridgeWAN(t *testing.T) {
	t.Helper()
	r.Router.Run(t, `ip link add br-wan type bridge stp_state 0 forward_delay 0 mcast_snooping 0
		ip addr flush dev wan; ip -6 route flush dev wan; ip link set wan master br-wan; ip link set br-wan up
		ip addr add `+topo.RouterWANv4+`/24 dev br-wan; ip addr add `+topo.RouterWANv6+`/64 dev br-wan nodad
		ip route add default via `+topo.ProviderWANv4+` metric 10; ip -6 route add default via `+topo.ProviderWANv6+` metric 10
		nft add rule inet fw4 srcnat oifname br-wan jump srcnat_wan
		nft insert rule inet fw4 forward oifname br-wan accept
		nft insert rule inet fw4 input iifname br-wan accept`)
	t.Cleanup(func() { r.Router.Run(t, "ip link set wan nomaster; ip link del br-wan") })
	r.rewrite(t, "network", "config interface 'wan'\n\toption device 'wan'", "config interface 'wan'\n\toption device 'br-wan'")
}

// TestGapAddress: the router's address changes, and with it the snat rule. What
// was sent from the old address would be for as long as it lives; other
// connections never notice.
func TestGapAddress(t *testing.T) {
	if !oneKernel(t) {
		return
	}
	r := build(t, topo.Bridge)
	snat := func(addr string) string {
		return `nft -f - <<'X'
table ip own
flush table ip own
table ip own { chain post { type nat hook postrouting priority 90; oifname "wan" ip saddr 192.168.1.0/24 snat to ` + addr + `; }; }
X
`
	}
	r.Router.Run(t, snat(topo.RouterWANv4))
	r.start(t)
	r.want(t, lowest(topo.Bridge)...)
	s := r.stream(t, r.Host1, topo.Serverv4, 5000)
	other := r.stream(t, r.Host2, topo.Serverv6, 5001)
	r.fast(t, s, "before")
	other.Begin()
	r.away(t, s, "another address", func() {
		r.Router.Run(t, fmt.Sprintf("ip addr add %s/24 dev wan; ip addr del %s/24 dev wan; ip addr replace %[1]s/24 dev wan; ip route replace default via %[3]s\n",
			topo.RedialledWANv4, topo.RouterWANv4, topo.ProviderWANv4)+snat(topo.RedialledWANv4))
	})
	if gap := max(other.Up.Seen().Gap, other.Down.Seen().Gap); gap > awayMost/2 {
		t.Errorf("another connection was away for %v", gap)
	}
	if !strings.Contains(r.log.String(), "forget the connections sent from addresses that are lost: ["+topo.RouterWANv4+"]") {
		t.Errorf("the log doesn't tell of the connections:\n%s", r.log.String())
	}
	r.fast(t, s, "after")
	r.settled(t)
}
