// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	peer "github.com/ti-mo/conntrack"

	"fastpath/src/packet"
	"fastpath/src/state"
	"fastpath/src/testkit"
)

// lab is a router between two namespaces, with the kernel's own NAT and a rule
// that sets the bit on what is established.
//
//	host 192.168.1.20 -- lan1 \
//	                           br-lan 192.168.1.1 | eth0 203.0.113.5 -- net 203.0.113.1, 198.51.100.9
//	              spare -- lan2 /
//
// The Sink is a fake: all packets really take the slow path.
type lab struct {
	t                 testing.TB
	router, host, net *testkit.Netns
	sink              *fakeSink
	sync              *Sync
	stop              func() error // ends Run and gives its error
}

const markRule = "ct state established meta l4proto { tcp, udp } ct mark and 0x40000000 == 0 ct mark set ct mark or 0x40000000"

const ruleset = `
table inet t {
	chain forward {
		type filter hook forward priority 10
		` + markRule + `
	}
	chain post {
		type nat hook postrouting priority 100
		meta nfproto ipv4 oifname "eth0" masquerade
	}
	chain pre {
		type nat hook prerouting priority -100
		iifname "eth0" ip daddr 203.0.113.5 tcp dport 8443 dnat ip to 192.168.1.20:443
	}
}`

func newLab(t testing.TB) *lab {
	t.Helper()
	testkit.NeedNetns(t)
	_, err := exec.LookPath("nft")
	testkit.Need(t, err == nil, "needs nft")
	l := &lab{t: t, router: testkit.NewNetns(t, "router"), host: testkit.NewNetns(t, "host"), net: testkit.NewNetns(t, "net"), sink: newSink(t)}
	testkit.Veth(t, l.router, "lan1", l.host, "h0")
	testkit.Veth(t, l.router, "lan2", l.host, "h1")
	testkit.Veth(t, l.router, "eth0", l.net, "n0")
	l.router.Run(t, `
		sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
		ip link add br-lan address 02:00:00:00:00:10 type bridge
		for p in lan1 lan2; do ip link set $p master br-lan; done
		ip link set br-lan up
		ip addr add 192.168.1.1/24 dev br-lan; ip addr add 203.0.113.5/24 dev eth0
		ip route add default via 203.0.113.1
		sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0 net.ipv6.conf.eth0.accept_dad=0 net.ipv6.conf.br-lan.accept_dad=0
		ip addr add 2001:db8:1::1/64 dev br-lan nodad; ip addr add 2001:db8:2::5/64 dev eth0 nodad
		ip -6 route add default via 2001:db8:2::1
		nft -f - <<-'END'`+ruleset+`
		END`)
	l.host.Run(t, `
		sysctl -qw net.ipv4.conf.all.arp_ignore=1 # h1 doesn't answer for h0
		ip addr add 192.168.1.20/24 dev h0; ip route add default via 192.168.1.1
		sysctl -qw net.ipv6.conf.h0.disable_ipv6=0 net.ipv6.conf.h0.accept_dad=0
		ip addr add 2001:db8:1::20/64 dev h0 nodad; ip -6 route add default via 2001:db8:1::1`)
	l.net.Run(t, `
		ip addr add 203.0.113.1/24 dev n0; ip addr add 198.51.100.9/32 dev lo
		sysctl -qw net.ipv6.conf.n0.disable_ipv6=0 net.ipv6.conf.n0.accept_dad=0
		ip addr add 2001:db8:2::1/64 dev n0 nodad; ip addr add 2001:db8:9::9/128 dev lo nodad; ip -6 route add default via 2001:db8:2::5`)
	return l
}

// start runs a Sync in the router.
func (l *lab) start(o Options) {
	l.t.Helper()
	o.Mark, o.Sink = bit, l.sink
	o.Log = slog.New(slog.NewTextHandler(l.t.Output(), nil))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	l.router.Do(l.t, func() {
		var err error
		if l.sync, err = New(o); err != nil {
			l.t.Fatal(err)
		}
	})
	go func() { ended <- l.sync.Run(ctx) }()
	l.stop = func() error {
		cancel()
		err, ok := <-ended
		if ok {
			close(ended)
		}
		return err
	}
	l.t.Cleanup(func() {
		if err := l.stop(); err != nil {
			l.t.Errorf("Run: %v", err)
		}
	})
	l.sync.SetPorts(l.ports("eth0", "lan1"))
}

func (l *lab) ports(names ...string) (ports []Port) {
	for i, name := range names {
		index, err := strconv.Atoi(strings.TrimSpace(l.router.Run(l.t, "cat /sys/class/net/"+name+"/ifindex")))
		if err != nil {
			l.t.Fatal(err)
		}
		ports = append(ports, Port{Name: name, Ifindex: index, Slot: uint16(i), Engine: state.EngineXDP})
	}
	return ports
}

// mac is a device's.
func (l *lab) mac(n *testkit.Netns, dev string) [6]byte {
	m, err := net.ParseMAC(strings.TrimSpace(n.Run(l.t, "cat /sys/class/net/"+dev+"/address")))
	if err != nil {
		l.t.Fatal(err)
	}
	return [6]byte(m)
}

// echo serves an address in a namespace, TCP and UDP, until the test ends.
func (l *lab) echo(n *testkit.Netns, addr string) {
	l.t.Helper()
	n.Do(l.t, func() {
		tcp, err := net.Listen("tcp", addr)
		if err != nil {
			l.t.Fatal(err)
		}
		udp, err := net.ListenPacket("udp", addr)
		if err != nil {
			l.t.Fatal(err)
		}
		l.t.Cleanup(func() { tcp.Close(); udp.Close() })
		go func() {
			for {
				c, err := tcp.Accept()
				if err != nil {
					return
				}
				go func() { io.Copy(c, c); c.Close() }()
			}
		}()
		go func() {
			b := make([]byte, 2048)
			for {
				n, from, err := udp.ReadFrom(b)
				if errors.Is(err, net.ErrClosed) {
					return
				}
				udp.WriteTo(b[:n], from)
			}
		}()
	})
}

// dial opens a connection from a namespace and talks until conntrack finds it
// established. An answer may be lost while neighbours are looked for.
func (l *lab) dial(n *testkit.Netns, network, addr string) net.Conn {
	l.t.Helper()
	var c net.Conn
	n.Do(l.t, func() {
		var err error
		if c, err = net.DialTimeout(network, addr, 30*time.Second); err != nil {
			l.t.Fatal(err)
		}
	})
	l.t.Cleanup(func() { c.Close() })
	l.say(c)
	return c
}

func (l *lab) say(c net.Conn) {
	l.t.Helper()
	b := make([]byte, 4)
	var err error
	for range 60 {
		c.SetDeadline(time.Now().Add(time.Second))
		if _, err = c.Write([]byte("ping")); err == nil {
			if _, err = io.ReadFull(c, b); err == nil {
				return
			}
		}
	}
	l.t.Fatal(err)
}

// carried waits until n connections are in the Sink, both ways.
func (l *lab) carried(n int) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("%d connections carried; waiting %v", n, l.sync.Stats().Waiting), func() bool {
		return l.sink.size() == 2*n && l.sync.Stats().Flows == n
	})
	l.sync.do(func() { // the table and the Sink are one
		have := l.sink.all()
		for k, f := range l.sync.table.keys {
			if _, ok := have[k]; !ok || !f.carried || f.gone || l.sync.table.flows[f.orig] != f {
				l.t.Errorf("flow %v: in the Sink %v, carried %v, gone %v", f.orig, ok, f.carried, f.gone)
			}
		}
		if len(have) != len(l.sync.table.keys) {
			l.t.Errorf("%d entries, %d keys", len(have), len(l.sync.table.keys))
		}
	})
}

// waits until the connection isn't carried for a reason with these words.
func (l *lab) waits(c net.Conn, words string) {
	l.t.Helper()
	var reason string
	defer func() {
		if l.t.Failed() {
			l.t.Logf("it says %q", reason)
		}
	}()
	eventually(l.t, "waiting for: "+words, func() bool {
		reason, _ = l.why(c)
		return strings.Contains(reason, words)
	})
	if l.sink.size() != 0 {
		l.t.Errorf("it waits (%s), but the Sink has %d entries", reason, l.sink.size())
	}
}

func (l *lab) why(c net.Conn) (string, bool) {
	src, dst := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String())
	return l.sync.Why(c.LocalAddr().Network(), src, dst)
}

// wires checks that the Sink has exactly one connection, between these wires.
func (l *lab) wires(from, to packet.Wire, orig, reply packet.Tuple) {
	l.t.Helper()
	c := connection{orig: orig, reply: reply}
	have := l.sink.all()
	if len(have) != 2 {
		l.t.Fatalf("%d entries", len(have))
	}
	var res resolution
	k0, _ := packet.NewKey(from, orig)
	k1, _ := packet.NewKey(to, reply)
	for i, k := range []packet.Key{k0, k1} {
		e, ok := have[k]
		if !ok {
			l.t.Fatalf("no entry for direction %d: %+v in %+v", i, k, have)
		}
		res.ends[i], res.path.key[i], res.path.act[i] = &end{port: e.in}, k, e.act
	}
	checkPath(l.t, &c, &res, from, to, [2]uint16{1500, 1500})
}

func match(state.Flow) bool { return true }

func (l *lab) text(mac [6]byte) string { return net.HardwareAddr(mac[:]).String() }

// peer is the MAC that answers to a connection are sent to.
func (l *lab) peer(orig packet.Tuple) (mac [6]byte) {
	for _, e := range l.sink.all() {
		if e.act.Dst == [16]byte(append(orig.Src.Addr().AsSlice(), make([]byte, 12)...)) {
			copy(mac[:], e.act.L2[:])
		}
	}
	return mac
}

// marked counts the connections with the bit, by ti-mo/conntrack.
func (l *lab) marked() int {
	l.t.Helper()
	n := 0
	l.router.Do(l.t, func() {
		c, err := peer.Dial(nil)
		if err != nil {
			l.t.Fatal(err)
		}
		defer c.Close()
		flows, err := c.Dump(nil)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, f := range flows {
			if f.Mark&bit != 0 {
				n++
			}
		}
	})
	return n
}

// poke makes the router look for neighbours.
func (l *lab) poke(addrs ...string) {
	l.t.Helper()
	l.router.Do(l.t, func() {
		for _, a := range addrs {
			c, err := net.Dial("udp", net.JoinHostPort(a, "9"))
			if err != nil {
				l.t.Fatal(err)
			}
			c.Write([]byte("hello"))
			c.Close()
		}
	})
	for _, a := range addrs {
		eventually(l.t, "neighbour "+a, func() bool {
			return strings.Contains(l.router.Run(l.t, "ip neigh show "+a), "REACHABLE")
		})
	}
}

// fdbAge is for how many seconds br-lan has not heard of a host.
func (l *lab) fdbAge(mac string) (seconds int) {
	l.t.Helper()
	out := l.router.Run(l.t, "bridge -s fdb show br br-lan | grep '^"+mac+" dev lan1'")
	_, used, ok := strings.Cut(out, "used ")
	field := strings.Fields(used)
	if ok && len(field) > 0 {
		_, updated, _ := strings.Cut(field[0], "/")
		var err error
		if seconds, err = strconv.Atoi(updated); err == nil {
			return seconds
		}
	}
	l.t.Fatalf("no age in %q", out)
	return 0
}
