// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	peer "github.com/ti-mo/conntrack"

	"fastpath/src/packet"
)

// conntrack opens the independent reader of conntrack in the router.
func (l *lab) conntrack() (c *peer.Conn) {
	l.t.Helper()
	l.router.Do(l.t, func() {
		var err error
		if c, err = peer.Dial(nil); err != nil {
			l.t.Fatal(err)
		}
	})
	l.t.Cleanup(func() { c.Close() })
	return c
}

// only is the one connection that has the bit.
func (l *lab) only(c *peer.Conn) peer.Flow {
	l.t.Helper()
	flows, err := c.DumpFilter(peer.NewFilter().Mark(bit).MarkMask(bit), nil)
	if err != nil || len(flows) != 1 {
		l.t.Fatalf("connections with the bit: %v, %v", flows, err)
	}
	return flows[0]
}

// TestLiberal: conntrack accepts any window before the first entry exists, and
// its state is what it was.
func TestLiberal(t *testing.T) {
	l := newLab(t)
	ct := l.conntrack()
	var seen []string
	l.sink.put = func(packet.Key) {
		flows, err := ct.DumpFilter(peer.NewFilter().Mark(bit).MarkMask(bit), nil)
		if err != nil || len(flows) != 1 {
			t.Errorf("connections with the bit: %v, %v", flows, err)
			return
		}
		tcp := flows[0].ProtoInfo.TCP
		if tcp.State != tcpEstablished {
			t.Errorf("TCP state %d", tcp.State)
		}
		for _, flags := range []uint16{tcp.OriginalFlags, tcp.ReplyFlags} {
			// struct nf_ct_tcp_flags: flags, mask
			if byte(flags>>8)&tcpLiberal == 0 {
				t.Errorf("flags %#x without be_liberal", flags)
			}
		}
		seen = append(seen, "put")
	}
	l.start(Options{})
	l.echo(l.net, "198.51.100.9:7000")
	c := l.dial(l.host, "tcp", "198.51.100.9:7000")
	l.carried(1)
	if len(seen) != 2 {
		t.Errorf("seen %v", seen)
	}
	if l.only(ct).ProtoInfo.TCP.OriginalWindowScale == 0 {
		t.Error("the window scale is gone")
	}
	l.say(c)
}

// TestTimeouts: conntrack's timeout of a flow with packets is renewed, of
// another it isn't.
func TestTimeouts(t *testing.T) {
	l := newLab(t)
	ct := l.conntrack()
	l.start(Options{verifyEvery: 200 * time.Millisecond, idleAfter: time.Hour})
	l.echo(l.net, "198.51.100.9:7000")
	l.dial(l.host, "tcp", "198.51.100.9:7000")
	l.carried(1)
	shorten := func() { l.router.Run(t, "conntrack -U -p tcp -d 198.51.100.9 -t 1000") }
	shorten()
	eventually(t, "the timeout is renewed", func() bool {
		l.sink.count(1)
		return l.only(ct).Timeout > 400000
	})
	time.Sleep(time.Second) // more than two verifications without packets
	shorten()
	resyncs := l.sync.Stats().Resyncs
	eventually(t, "three more dumps", func() bool { return l.sync.Stats().Resyncs >= resyncs+3 })
	if got := l.only(ct).Timeout; got > 1000 {
		t.Errorf("renewed without packets: %d", got)
	}
	l.router.Run(t, "sysctl -qw net.netfilter.nf_conntrack_tcp_timeout_established=7440")
	shorten()
	eventually(t, "the sysctl's new value", func() bool {
		l.sink.count(1)
		got := l.only(ct).Timeout
		return got > 1000 && got <= 7440
	})
}

// TestIdle: a flow without packets leaves with its bit; it comes back with the
// next packet.
func TestIdle(t *testing.T) {
	l := newLab(t)
	l.start(Options{verifyEvery: 100 * time.Millisecond, idleAfter: time.Second})
	l.echo(l.net, "198.51.100.9:7000")
	c := l.dial(l.host, "udp", "198.51.100.9:7000")
	l.say(c)
	l.carried(1)
	for range 30 { // longer than idleAfter
		l.sink.count(1)
		time.Sleep(50 * time.Millisecond)
	}
	flows := l.sync.Flows()
	if len(flows) != 1 {
		t.Fatalf("flows %v", flows)
	}
	f := flows[0]
	src := netip.MustParseAddrPort(c.LocalAddr().String())
	if f.Orig.Packets < 30 || f.Reply.Bytes < 3000 || f.In != "lan1" || f.Out != "eth0" || f.Idle >= 1 ||
		f.Engine != "xdp" || f.Proto != "udp" || f.Family != "ipv4" || f.Orig.SrcPort != src.Port() || !f.Counted {
		t.Errorf("flow %+v", f)
	}
	l.carried(0)
	if n := l.marked(); n != 0 {
		t.Errorf("%d connections keep the bit", n)
	}
	l.say(c)
	l.carried(1)
}

// TestNeighbours: the neighbours of a flow with packets are kept confirmed,
// although the kernel sends nothing to them, and their bridge hears of them.
func TestNeighbours(t *testing.T) {
	l := newLab(t)
	l.start(Options{verifyEvery: 300 * time.Millisecond, idleAfter: time.Hour})
	l.router.Run(t, `for d in br-lan eth0; do sysctl -qw net.ipv4.neigh.$d.delay_first_probe_time=1; done`)
	l.echo(l.net, "198.51.100.9:7000")
	l.dial(l.host, "tcp", "198.51.100.9:7000")
	l.carried(1)
	mac := l.text(l.mac(l.host, "h0"))
	l.router.Run(t, "ip neigh replace 192.168.1.20 lladdr "+mac+" nud stale dev br-lan")
	state := func() string { return l.router.Run(t, "ip neigh show 192.168.1.20 dev br-lan") }
	for range 10 { // without packets nobody asks
		time.Sleep(200 * time.Millisecond)
		if !strings.Contains(state(), "STALE") {
			t.Fatalf("not stale: %s", state())
		}
	}
	before := 0
	eventually(t, "the bridge has not heard of the host for a while", func() bool {
		before = l.fdbAge(mac)
		return before >= 3
	})
	eventually(t, "confirmed", func() bool {
		l.sink.count(1)
		return strings.Contains(state(), "REACHABLE")
	})
	if after := l.fdbAge(mac); after >= before {
		t.Errorf("the bridge last heard of the host %d s ago, before the probe it was %d s", after, before)
	}
	l.carried(1)
}

// TestReuse: a NAT port goes to another host; the new connection has the old
// one's key on the WAN side.
func TestReuse(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, "ip addr add 192.168.1.21/24 dev h0")
	l.poke("192.168.1.20", "192.168.1.21", "203.0.113.1")
	l.start(Options{verifyEvery: time.Hour})
	insert := func(host string) {
		l.router.Run(t, `conntrack -I -p tcp -s `+host+` -d 198.51.100.9 --sport 1000 --dport 443 \
			--reply-src 198.51.100.9 --reply-dst 203.0.113.5 --reply-port-src 443 --reply-port-dst 1024 --state ESTABLISHED -u SEEN_REPLY,ASSURED -t 100
			conntrack -U -p tcp -s `+host+` --mark 0x40000000`)
	}
	insert("192.168.1.20")
	l.carried(1)
	l.router.Run(t, "conntrack -D -s 192.168.1.20 >/dev/null 2>&1")
	insert("192.168.1.21")
	eventually(t, "the new owner", func() bool {
		flows := l.sync.Flows()
		return len(flows) == 1 && flows[0].Orig.Src == "192.168.1.21" && l.sink.size() == 2
	})
}
