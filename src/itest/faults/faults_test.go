// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"net/netip"
	"strings"
	"syscall"
	"time"

	"fastpath/src/config"
	"fastpath/src/itest/engine"
)

// flap is how long a link or the daemon is away.
const flap = 300 * time.Millisecond

var macNew, macNewer = mac{2, 0, 0, 0, 0, 0xee}, mac{2, 0, 0, 0, 0, 0xef}

var faults = []fault{
	{name: "nothing", do: func(l *lab) {}},

	{name: "daemon killed", do: func(l *lab) {
		l.killDaemon()
		time.Sleep(flap)
		l.startDaemon()
	}},
	{name: "daemon killed and started at once", do: func(l *lab) {
		l.killDaemon()
		l.startDaemon()
	}},
	{name: "daemon terminated", do: func(l *lab) {
		l.stopDaemon()
		time.Sleep(flap)
		l.startDaemon()
	}},
	{name: "daemon stopped for a moment", do: func(l *lab) { l.pause(flap) }},
	{name: "daemon stopped for long", do: func(l *lab) { l.pause(7 * time.Second) }}, // the program waits 5 s for engine xdp's
	{name: "flushed", do: (*lab).flush},

	{name: "configuration read again", do: func(l *lab) { l.reload(l.engine) }},
	{name: "engines switched off and on", do: func(l *lab) {
		l.reload(config.EngineNone)
		time.Sleep(flap)
		l.reload(l.engine)
	}},
	{name: "our table deleted", do: func(l *lab) {
		if l.daemon != nil {
			l.router.Run(l, "nft delete table inet fastpath")
		}
	}},

	{name: "cable of the WAN pulled", do: func(l *lab) {
		l.g.ns.Run(l, "ip link set g0 down")
		time.Sleep(flap)
		l.g.ns.Run(l, "ip link set g0 up")
	}},
	{name: "WAN down and up", do: func(l *lab) {
		l.router.Run(l, "ip link set w0 down")
		time.Sleep(flap)
		l.router.Run(l, "ip link set w0 up; ip route add 198.51.100.0/24 via 192.0.2.2")
	}},
	{name: "LAN port down and up", do: func(l *lab) {
		l.router.Run(l, "ip link set p1 down")
		time.Sleep(flap)
		l.router.Run(l, "ip link set p1 up")
	}},
	{name: "bridge down and up", do: func(l *lab) {
		l.router.Run(l, "ip link set br-lan down")
		time.Sleep(flap)
		l.router.Run(l, "ip link set br-lan up")
	}},
	{name: "WAN port re-created", do: func(l *lab) {
		l.recable(l.g, "w0")
		l.router.Run(l, "ip link set w0 address "+text(macWAN)+`
			ip addr add 192.0.2.1/24 dev w0
			ip route add 198.51.100.0/24 via 192.0.2.2`)
	}},
	{name: "LAN port re-created", do: func(l *lab) {
		l.recable(l.a, "p1")
		l.router.Run(l, "ip link set p1 master br-lan")
	}},

	{name: "route to another gateway", do: func(l *lab) {
		l.up.expect(form{at: l.g, frame: masqueraded(1001, macG2)})
		l.router.Run(l, "ip route replace 198.51.100.0/24 via 192.0.2.3")
	}},
	{name: "rule for another gateway", do: func(l *lab) {
		l.up.expect(form{at: l.g, frame: masqueraded(1001, macG2)})
		l.router.Run(l, "ip route add default via 192.0.2.3 table 100; ip rule add from 10.0.1.10 lookup 100")
	}},
	{name: "server unreachable", do: func(l *lab) {
		l.forbid(l.up, "ip route add unreachable 198.51.100.7", "ip route del unreachable 198.51.100.7")
	}},
	{name: "router with other MACs", do: func(l *lab) {
		l.up.expect(form{at: l.g, frame: with(masqueraded(1001, macG1), func(f *engine.Frame) { f.Src = macNew })})
		in, out := downFrames(1001, macG1, hostA, macA, 1001)
		out.Src = macNewer
		l.down.expect(form{at: l.a, frame: out})
		l.router.Run(l, "ip link set w0 address "+text(macNew)+"; ip link set br-lan address "+text(macNewer))
		l.up.source(l.a, with(upFrame(hostA, 1001), func(f *engine.Frame) { f.Dst = macNewer }))
		in.Dst = macNew
		l.down.source(l.g, in)
	}},
	{name: "gateway with another MAC", do: func(l *lab) {
		l.up.expect(form{at: l.g, frame: masqueraded(1001, macNew)})
		l.g.own(gate1, macNew)
		in, _ := downFrames(1001, macNew, hostA, macA, 1001)
		l.down.source(l.g, in)
	}},
	{name: "neighbours forgotten", do: func(l *lab) { l.router.Run(l, "ip neigh flush all") }},
	{name: "host with another MAC", do: func(l *lab) {
		_, out := downFrames(1001, macG1, hostA, macNew, 1001)
		l.down.expect(form{at: l.a, frame: out})
		l.a.own(hostA, macNew)
		l.up.source(l.a, with(upFrame(hostA, 1001), func(f *engine.Frame) { f.Src = macNew }))
	}},
	{name: "host moved to the other port", do: func(l *lab) {
		_, out := downFrames(1001, macG1, hostA, macA, 1001)
		l.down.expect(form{at: l.b, frame: out})
		l.a.disown(hostA)
		l.b.own(hostA, macA)
		l.up.source(l.b, upFrame(hostA, 1001))
	}},
	{name: "place of the host forgotten", do: func(l *lab) {
		l.router.Run(l, "bridge fdb del "+text(macA)+" dev p1 master")
	}},
	{name: "port taken out of the bridge and put back", do: func(l *lab) {
		l.router.Run(l, "ip link set p1 nomaster")
		time.Sleep(flap)
		l.router.Run(l, "ip link set p1 master br-lan")
	}},
	{name: "public address changed", do: func(l *lab) {
		to := netip.MustParseAddr("192.0.2.77")
		out := with(masqueraded(1001, macG1), func(f *engine.Frame) { f.From = netip.AddrPortFrom(to, 1001) })
		l.up.expect(form{at: l.g, frame: out})
		l.router.Run(l, `ip addr del 192.0.2.1/24 dev w0
			ip addr add 192.0.2.77/24 dev w0
			ip route replace 198.51.100.0/24 via 192.0.2.2`)
		in, _ := downFrames(1001, macG1, hostA, macA, 1001)
		in.To = out.From
		l.down.source(l.g, in)
	}},

	{name: "public port of another host now", before: func(l *lab) {
		l.router.Run(l, `nft flush chain ip router nat
			nft add rule ip router nat oifname w0 meta l4proto udp snat to 192.0.2.1:40000`)
		l.up.expect(form{at: l.g, frame: masqueraded(40000, macG1)})
		in, out := downFrames(40000, macG1, hostA, macA, 1001)
		l.down.source(l.g, in)
		l.down.expect(form{at: l.a, frame: out})
	}, do: func(l *lab) {
		_, out := downFrames(40000, macG1, hostB, macB, 1001)
		l.down.expect(form{at: l.b, frame: out})
		l.up.source(l.b, upFrame(hostB, 1001))
		l.router.Run(l, "conntrack -D -p udp --orig-src 10.0.1.10")
	}},

	{name: "listener overrun", do: (*lab).overrun},
	{name: "conntrack flushed", do: func(l *lab) { l.router.Run(l, "conntrack -F") }},
	{name: "conntrack entry deleted", do: func(l *lab) { l.router.Run(l, "conntrack -D -p udp --orig-src 10.0.1.10") }},
	{name: "conntrack entry deleted ten times", do: func(l *lab) {
		for range 10 {
			time.Sleep(flap / 3)
			l.router.Run(l, "conntrack -D -p udp --orig-src 10.0.1.10 || true")
		}
	}},
}

// with is f with something changed.
func with(f engine.Frame, change func(*engine.Frame)) engine.Frame {
	change(&f)
	return f
}

// forbid makes the router stop forwarding a stream for a while, and sees that
// nobody forwards it any more.
func (l *lab) forbid(s *stream, block, allow string) {
	l.Helper()
	l.router.Run(l, block)
	time.Sleep(flap)
	eventually(l, "nothing is forwarded that mustn't be", func() bool {
		n := s.received()
		time.Sleep(flap / 6)
		return s.received() == n
	})
	l.router.Run(l, allow)
}

// flush sends all flows back to the slow path.
func (l *lab) flush() {
	l.Helper()
	if l.daemon != nil && !strings.Contains(l.ask("flush"), "flow") {
		l.Error("fastpath flush did not say what it did")
	}
}

// reload makes the daemon read that all ports have this engine.
func (l *lab) reload(engine string) {
	l.Helper()
	if l.daemon != nil {
		l.writeConfig(engine)
		l.signal(syscall.SIGHUP)
	}
}

// pause stops the daemon for a while.
func (l *lab) pause(d time.Duration) {
	l.Helper()
	l.signal(syscall.SIGSTOP)
	time.Sleep(d)
	l.signal(syscall.SIGCONT)
}

// recable deletes a port of the router, and with it the cable, and makes it anew.
func (l *lab) recable(w *wire, port string) {
	l.Helper()
	l.router.Run(l, "ip link del "+port)
	w.unplug()
	l.cable(w, port)
}
