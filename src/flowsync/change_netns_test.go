// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"fastpath/src/packet"
)

// changes break the path of a connection, one after the other.
var changes = []struct {
	what, break_, words, mend string
}{
	{"the neighbour is gone", "ip neigh del 192.168.1.20 dev br-lan", "the neighbour 192.168.1.20 on br-lan is not resolved", ""},
	{"the host moves to a port without an engine", "bridge fdb replace $(bridge fdb show br br-lan dev lan1 | grep -v permanent | cut -d' ' -f1) dev lan2 master dynamic",
		"192.168.1.20 is behind lan2, which has no engine", ""},
	{"the bridge's port goes down", "ip link set lan1 down", "br-lan has not learnt behind which port 192.168.1.20 is", "ip link set lan1 up"},
	{"no route", "ip route replace blackhole 198.51.100.9", "no route to 198.51.100.9", "ip route del blackhole 198.51.100.9"},
	{"several next hops", "ip route replace default nexthop via 203.0.113.1 nexthop via 203.0.113.2", "has several next hops", "ip route replace default via 203.0.113.1"},
	{"a rule by mark", "ip route add default dev br-lan table 100; ip rule add fwmark 0x100 lookup 100",
		"mark 0x100 another way", "ip rule del fwmark 0x100"},
	{"a rule by source", "ip rule add from 192.168.1.20 lookup 100", "198.51.100.9 on br-lan", "ip rule del from 192.168.1.20"},
	{"a rule by TOS", "ip rule add tos 0x10 lookup 100", "TOS", "ip rule del tos 0x10"},
	{"IPsec", "ip xfrm policy add src 10.9.0.0/24 dst 10.8.0.0/24 dir fwd tmpl src 192.0.2.1 dst 192.0.2.2 proto esp mode tunnel",
		"IPsec", "ip xfrm policy flush"},
	{"the port leaves the bridge", "ip link set lan1 nomaster", "br-lan has not learnt", "ip link set lan1 master br-lan"},
}

// watched is one real connection, and what its entries must be.
type watched struct {
	*lab
	conn        net.Conn
	from, to    packet.Wire
	orig, reply packet.Tuple
}

// watch makes one that events alone keep right.
func watch(t *testing.T) *watched {
	w := &watched{lab: newLab(t)}
	w.start(Options{verifyEvery: time.Hour})
	w.echo(w.net, "198.51.100.9:7000")
	w.net.Run(t, "ip addr add 203.0.113.2/24 dev n0")
	w.conn = w.dial(w.host, "tcp", "198.51.100.9:7000")
	w.carried(1)
	w.from = packet.Wire{Port: 1, Peer: w.mac(w.host, "h0"), Own: w.mac(w.router, "br-lan")}
	w.to = packet.Wire{Port: 0, Peer: w.mac(w.net, "n0"), Own: w.mac(w.router, "eth0")}
	w.orig = packet.Tuple{Proto: packet.TCP, Src: netip.MustParseAddrPort(w.conn.LocalAddr().String()), Dst: netip.MustParseAddrPort("198.51.100.9:7000")}
	w.reply = turned(w.orig)
	w.reply.Dst = netip.AddrPortFrom(wan4, w.orig.Src.Port())
	return w
}

// back waits until the connection is carried again, and rightly.
func (w *watched) back() {
	w.t.Helper()
	w.say(w.conn)
	w.carried(1)
	w.wires(w.from, w.to, w.orig, w.reply)
}

// TestChanges: whatever the kernel changes, the entries follow, and the
// packets that really flow say when all is well again.
func TestChanges(t *testing.T) {
	w := watch(t)
	w.net.Run(t, "ip link set n0 down")
	w.waits(w.conn, "no carrier")
	w.net.Run(t, "ip link set n0 up")
	w.back()
	for _, step := range changes {
		t.Log(step.what)
		w.router.Run(t, step.break_)
		w.waits(w.conn, step.words)
		if step.mend != "" {
			w.router.Run(t, step.mend)
		}
		w.back()
	}
}

// TestExchange: what is done with the packets changes, their keys stay.
func TestExchange(t *testing.T) {
	w := watch(t)
	const mac = "02:00:00:00:00:99"
	w.host.Run(t, "ip link set h0 address "+mac+"; ip route replace default via 192.168.1.1")
	w.from.Peer = [6]byte{2, 0, 0, 0, 0, 0x99}
	w.say(w.conn) // the bridge learns
	w.router.Run(t, "ip neigh replace 192.168.1.20 lladdr "+mac+" nud reachable dev br-lan")
	eventually(t, "the host's new MAC", func() bool { return w.peer(w.orig) == w.from.Peer })
	w.back()

	w.router.Run(t, "ip route replace default via 203.0.113.2")
	w.poke("203.0.113.2")
	w.back()

	w.sink.mu.Lock()
	w.sink.ops = nil
	w.sink.mu.Unlock()
	w.router.Run(t, "ip link set eth0 mtu 1400")
	eventually(t, "MTU 1400", func() bool { return w.sink.mtus(1400) == 1 })
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	if len(w.sink.ops) != 1 || w.sink.ops[0] != "put" {
		t.Errorf("another MTU took %v", w.sink.ops)
	}
}

// TestEnds: each way in which a connection can end takes both directions out.
func TestEnds(t *testing.T) {
	l := newLab(t)
	l.start(Options{verifyEvery: time.Hour})
	l.echo(l.net, "198.51.100.9:7000")
	for _, end := range []struct {
		what string
		do   func(c net.Conn)
	}{
		{"FIN", func(c net.Conn) { c.Close() }},
		{"half a FIN", func(c net.Conn) { c.(*net.TCPConn).CloseWrite() }},
		{"RST", func(c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() }},
		{"the entry is deleted", func(c net.Conn) { l.router.Run(t, "conntrack -D -p tcp -d 198.51.100.9") }},
		{"conntrack is flushed", func(c net.Conn) { l.router.Run(t, "conntrack -F") }},
		{"the WAN goes down: its masqueraded connections end", func(c net.Conn) {
			l.router.Run(t, "ip link set eth0 down")
			l.carried(0)
			l.router.Run(t, "ip link set eth0 up; ip route replace default via 203.0.113.1")
		}},
		{"the bit is cleared", func(c net.Conn) {
			l.router.Run(t, "nft flush chain inet t forward; conntrack -U -p tcp -d 198.51.100.9 --mark 0/0x40000000")
			l.carried(0)
			c.(*net.TCPConn).SetLinger(0) // a late ACK would set it again
			c.Close()
			l.router.Run(t, "nft add rule inet t forward "+markRule)
		}},
		{"the ports lose their engines", func(c net.Conn) {
			l.sync.SetPorts(nil)
			if n := l.sink.size(); n != 0 {
				t.Errorf("SetPorts returned with %d entries left", n)
			}
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
			l.sync.SetPorts(l.ports("eth0", "lan1"))
		}},
	} {
		c := l.dial(l.host, "tcp", "198.51.100.9:7000")
		l.carried(1)
		end.do(c)
		l.carried(0)
		t.Log(end.what)
		c.Close()
		l.router.Run(t, "conntrack -F")
	}
}

// TestStop: nothing stays behind.
func TestStop(t *testing.T) {
	l := newLab(t)
	l.start(Options{})
	l.echo(l.net, "198.51.100.9:7000")
	l.dial(l.host, "tcp", "198.51.100.9:7000")
	l.carried(1)
	l.router.Run(t, "nft delete chain inet t forward") // the rule would set it again
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	if n := l.sink.size(); n != 0 {
		t.Errorf("%d entries left", n)
	}
	if marked := l.marked(); marked != 0 {
		t.Errorf("%d connections keep the bit", marked)
	}
	if got := l.sync.Flows(); got != nil {
		t.Errorf("flows after the end: %v", got)
	}
	l.router.Run(t, "conntrack -U -p tcp -d 198.51.100.9 --mark 0x40000003")
	l.router.Do(t, func() {
		if err := Unmark(bit); err != nil {
			t.Error(err)
		}
	})
	if marked := l.marked(); marked != 0 {
		t.Errorf("Unmark left %d", marked)
	}
	l.router.Run(t, "conntrack -L -m 3 2>/dev/null | grep -q 198.51.100.9") // the other bits stay
}

// TestDistrust: while the kernel's tables can't be read, nothing is known to be
// right, so nothing is carried.
func TestDistrust(t *testing.T) {
	l := newLab(t)
	l.start(Options{verifyEvery: time.Hour})
	l.echo(l.net, "198.51.100.9:7000")
	c := l.dial(l.host, "tcp", "198.51.100.9:7000")
	l.carried(1)
	var good *socket
	l.sync.do(func() {
		good = l.sync.reader.rt
		l.sync.reader.rt = &socket{fd: -1}
	})
	l.router.Run(t, "ip route add 192.0.2.0/24 via 203.0.113.1")
	l.waits(c, "bad file descriptor")
	l.sync.do(func() { l.sync.reader.rt = good })
	l.carried(1)
}
