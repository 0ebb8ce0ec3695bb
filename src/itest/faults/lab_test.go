// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fastpath/src/itest/engine"
	"fastpath/src/testkit"
)

// The hosts that are played by us, and the router's own MACs.
var (
	hostA, macA   = netip.MustParseAddr("10.0.1.10"), mac{2, 0, 0, 0, 0, 0xa}
	hostB, macB   = netip.MustParseAddr("10.0.1.11"), mac{2, 0, 0, 0, 0, 0xb}
	gate1, macG1  = netip.MustParseAddr("192.0.2.2"), mac{2, 0, 0, 0, 0, 0x11}
	gate2, macG2  = netip.MustParseAddr("192.0.2.3"), mac{2, 0, 0, 0, 0, 0x12}
	public        = netip.MustParseAddr("192.0.2.1")
	server        = netip.MustParseAddrPort("198.51.100.7:5000")
	macBr, macWAN = mac{2, 0, 0, 0, 0, 1}, mac{2, 0, 0, 0, 0, 2}
)

// The TTLs with which hosts and server send.
const ttlUp, ttlDown = 64, 60

// lab is a router between two LAN hosts and two gateways to a server. Hosts,
// gateways and server are raw sockets; for TCP the kernels at the ends have
// addresses of their own (in brackets).
//
//	a: a0 ──── p1 ┐ router
//	(.2)          br-lan 10.0.1.1, masquerade, 192.0.2.1 w0 ──── g0 :wan
//	b: b0 ──── p2 ┘                                        (192.0.2.9)
//	hosts 10.0.1.10, .11                 gateways 192.0.2.2, .3 → 198.51.100.0/24
type lab struct {
	testing.TB
	router  *testkit.Netns
	a, b, g *wire
	flow            // of A and the server, by port 1001
	daemon  *daemon // nil: the kernel alone
	engine  string
	// answered is how many packets of crowds the server has sent back.
	answered atomic.Int64
}

const routerSetup = `
	sysctl -qw net.ipv4.ip_forward=1
	# Bridged frames are not routed: OpenWrt's setting, where the kernel has it.
	sysctl -qw net.bridge.bridge-nf-call-iptables=0 2>/dev/null || true
	ip link set p1 address 02:00:00:00:01:01
	ip link set p2 address 02:00:00:00:01:02
	ip link add br-lan address %s type bridge forward_delay 0
	ip link set p1 master br-lan
	ip link set p2 master br-lan
	ip link set br-lan up
	ip addr add 10.0.1.1/24 dev br-lan
	ip link set w0 address %s
	ip addr add 192.0.2.1/24 dev w0
	ip route add 198.51.100.0/24 via 192.0.2.2
	for dev in br-lan w0; do # a lost ARP request must not look like a fault
		sysctl -qw net.ipv4.neigh.$dev.retrans_time_ms=50
	done
	nft -f - <<-END
	table ip router {
		counter slow { }
		chain nat {
			type nat hook postrouting priority srcnat;
			oifname w0 masquerade
		}
		chain input {
			type filter hook input priority filter;
			iifname w0 meta l4proto { tcp, udp } ct state != established drop
		}
		chain forward {
			type filter hook forward priority filter;
			udp sport 1001 counter name slow
			udp dport 1001 counter name slow
			ct state invalid drop
			iifname w0 ct state new drop
		}
	}
	END`

// newLab builds all but the daemon, and starts nothing.
func newLab(t testing.TB, kind string) *lab {
	t.Helper()
	for _, tool := range []string{"go", "nft", "ethtool", "conntrack", "bridge", "sysctl"} {
		_, err := exec.LookPath(tool)
		testkit.Need(t, err == nil, "there is no "+tool)
	}
	l := &lab{TB: t, engine: kind, router: testkit.NewNetns(t, "router")}
	newWire := func(label, dev, port string) *wire {
		w := &wire{ns: testkit.NewNetns(t, label), dev: dev, arp: map[netip.Addr]mac{}}
		l.cable(w, port)
		t.Cleanup(w.unplug)
		return w
	}
	l.a, l.b, l.g = newWire("a", "a0", "p1"), newWire("b", "b0", "p2"), newWire("wan", "g0", "w0")
	l.router.Run(t, fmt.Sprintf(routerSetup, text(macBr), text(macWAN)))
	l.a.own(hostA, macA)
	l.b.own(hostB, macB)
	l.g.own(gate1, macG1)
	l.g.own(gate2, macG2)
	l.flow = l.newFlow("", 1001, 64)
	return l
}

// flow is a UDP flow in both directions.
type flow struct{ up, down *stream }

// newFlow is one of A and the server; size is of the payload on the way up.
func (l *lab) newFlow(name string, port uint16, size int) (f flow) {
	in, out := upFrame(hostA, port), masqueraded(port, macG1)
	f.up = l.stream("up"+name, size, l.a, in, form{at: l.g, frame: out})
	in, out = downFrames(port, macG1, hostA, macA, port)
	f.down = l.stream("down"+name, 64, l.g, in, form{at: l.a, frame: out})
	return f
}

// start starts both streams; the server's can't come before the host's.
func (f flow) start(t testing.TB) {
	t.Helper()
	f.up.start(t)
	eventually(t, "a packet of the host at the server", func() bool { return f.up.received() > 0 })
	f.down.start(t)
	eventually(t, "a packet of the server at the host", func() bool { return f.down.received() > 0 })
}

// finish ends both and reports what was wrong with them.
func (f flow) finish(t testing.TB) {
	t.Helper()
	f.up.halt()
	f.down.halt()
	f.up.check(t)
	f.down.check(t)
}

// cable connects a wire with a port of the router. The outer end receives by
// NAPI (GRO), without which a veth can't transmit what XDP sends to it.
func (l *lab) cable(w *wire, port string) {
	l.Helper()
	testkit.Veth(l, w.ns, w.dev, l.router, port)
	w.ns.Run(l, "ethtool -K "+w.dev+" gro on")
	w.plug(l)
}

// stream makes a stream that every wire listens for.
func (l *lab) stream(name string, size int, from *wire, frame engine.Frame, want form) *stream {
	s := newStream(name, size, from, frame, want)
	for _, w := range []*wire{l.a, l.b, l.g} {
		w.tap(s.take)
	}
	return s
}

// upFrame is what a host sends to the server.
func upFrame(host netip.Addr, port uint16) engine.Frame {
	from := map[netip.Addr]mac{hostA: macA, hostB: macB}[host]
	return engine.Frame{Proto: 17, TTL: ttlUp, Frag: 0x4000, Dst: macBr, Src: from, From: netip.AddrPortFrom(host, port), To: server}
}

// masqueraded is what the router makes of it.
func masqueraded(port uint16, gateway mac) engine.Frame {
	return engine.Frame{Proto: 17, TTL: ttlUp - 1, Frag: 0x4000, Dst: gateway, Src: macWAN, From: netip.AddrPortFrom(public, port), To: server}
}

// downFrames are what the server sends to a public port, and what a host gets.
func downFrames(port uint16, gateway mac, host netip.Addr, hostMAC mac, hostPort uint16) (in, out engine.Frame) {
	in = engine.Frame{Proto: 17, TTL: ttlDown, Frag: 0x4000, Dst: macWAN, Src: gateway, From: server, To: netip.AddrPortFrom(public, port)}
	out = engine.Frame{Proto: 17, TTL: ttlDown - 1, Frag: 0x4000, Dst: hostMAC, Src: macBr, From: server, To: netip.AddrPortFrom(host, hostPort)}
	return in, out
}

// run starts the daemon, if there is to be one, and both streams, and waits
// until they go the way they should.
func (l *lab) run() {
	l.Helper()
	l.startDaemon()
	l.start(l)
	l.settled("from the start")
}

// settled waits until both streams arrive in full: past the kernel's forwarding
// if there is a daemon.
func (l *lab) settled(when string) {
	l.Helper()
	begin := time.Now()
	var slow, fast int
	eventually(l, "the streams go as they should "+when, func() bool {
		s, n, m := l.slow(), l.up.received(), l.down.received()
		time.Sleep(200 * time.Millisecond)
		up, down := l.up.received()-n, l.down.received()-m
		slow, fast = l.slow()-s, up+down
		return up > 50 && down > 50 && (l.daemon == nil || slow*20 < fast)
	})
	l.Logf("settled %s after %v (%d of %d by the slow path at last)", when, time.Since(begin).Round(time.Millisecond), slow, fast)
}

// slow is how many packets of the flow the router's kernel has forwarded.
func (l *lab) slow() int {
	l.Helper()
	_, rest, _ := strings.Cut(l.router.Run(l, "nft list counter ip router slow"), "packets ")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		l.Fatal(err)
	}
	return n
}

// finish ends the flow and the daemon, and reports what was wrong.
func (l *lab) finish() {
	l.Helper()
	l.flow.finish(l)
	l.stopDaemon()
}

func text(m mac) string { return net.HardwareAddr(m[:]).String() }
