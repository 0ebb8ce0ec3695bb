// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"net/netip"
	"testing"

	"fastpath/src/packet"
)

// TestConnections: real connections through the kernel's NAT become entries
// that say exactly what the kernel does with them.
func TestConnections(t *testing.T) {
	l := newLab(t)
	l.start(Options{})
	l.echo(l.net, "198.51.100.9:7000")
	l.echo(l.net, "[2001:db8:9::9]:7000")
	l.echo(l.host, "192.168.1.20:443")
	lan := packet.Wire{Port: 1, Peer: l.mac(l.host, "h0"), Own: l.mac(l.router, "br-lan")}
	wan := packet.Wire{Port: 0, Peer: l.mac(l.net, "n0"), Own: l.mac(l.router, "eth0")}
	for _, c := range []struct {
		what, network, addr string
		proto               uint8
		fromNet             bool
	}{
		{"TCP, masqueraded", "tcp", "198.51.100.9:7000", packet.TCP, false},
		{"UDP, masqueraded", "udp", "198.51.100.9:7000", packet.UDP, false},
		{"TCP over IPv6", "tcp", "[2001:db8:9::9]:7000", packet.TCP, false},
		{"UDP over IPv6", "udp", "[2001:db8:9::9]:7000", packet.UDP, false},
		{"a port forward", "tcp", "203.0.113.5:8443", packet.TCP, true},
	} {
		from, to, client := lan, wan, l.host
		if c.fromNet {
			from, to, client = wan, lan, l.net
		}
		conn := l.dial(client, c.network, c.addr)
		l.carried(1)
		src, dst := netip.MustParseAddrPort(conn.LocalAddr().String()), netip.MustParseAddrPort(c.addr)
		orig := packet.Tuple{Proto: c.proto, Src: src, Dst: dst}
		reply := turned(orig)
		switch {
		case c.fromNet:
			reply.Src = netip.MustParseAddrPort("192.168.1.20:443")
		case src.Addr().Is4():
			reply.Dst = netip.AddrPortFrom(wan4, src.Port())
		}
		l.wires(from, to, orig, reply)
		if reason, known := l.why(conn); reason != "" || !known {
			t.Errorf("%s: why %q, %v", c.what, reason, known)
		}
		if n := l.sync.Flush(match); n != 1 {
			t.Errorf("%s: flushed %d", c.what, n)
		}
		l.say(conn) // the rule sets the bit again
		l.carried(1)
		conn.Close()
		if c.proto == packet.UDP {
			l.sync.Flush(match) // nothing tells that it is over
		}
		l.carried(0)
	}
}
