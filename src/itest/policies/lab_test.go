// SPDX-License-Identifier: Apache-2.0

// Package policies proves on the running kernel that each condition of a policy
// matches what it says, in both directions, and that explain says the same.
package policies

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/config"
	"fastpath/src/kernel"
	"fastpath/src/plan"
	"fastpath/src/state"
	"fastpath/src/status"
	"fastpath/src/testkit"
)

// lab is a router between three hosts. The test's own goroutine is inside the
// router. Towards wan IPv4 is masqueraded, and the router's port 8080 there is
// port 80 of lan's host; a packet mark is set on what comes from the ports 7000
// to 7099. No engine runs: the bit of the connection's mark is the verdict.
type lab struct {
	t     *testing.T
	hosts map[string]*testkit.Netns
	k     *kernel.Kernel
	dir   string // of the UCI files
	table *state.Table
	bit   uint32
}

// addresses of the hosts, by zone.
var addresses = map[string]map[string]netip.Addr{
	"lan":   {"ipv4": netip.MustParseAddr("10.0.1.2"), "ipv6": netip.MustParseAddr("fd00:1::2")},
	"guest": {"ipv4": netip.MustParseAddr("10.0.2.2"), "ipv6": netip.MustParseAddr("fd00:2::2")},
	"wan":   {"ipv4": netip.MustParseAddr("192.0.2.2"), "ipv6": netip.MustParseAddr("fd00:3::2")},
}

// portForward is where port 8080 of the router leads to port 80 of lan's host.
var portForward = map[string]netip.Addr{"ipv4": netip.MustParseAddr("192.0.2.1"), "ipv6": netip.MustParseAddr("fd00:3::1")}

const routerRules = `
table inet router {
	chain marks {
		type filter hook prerouting priority mangle;
		ct direction original th sport 7000-7099 meta mark set 0x10
	}
	chain dstnat {
		type nat hook prerouting priority dstnat;
		iifname wan ip daddr 192.0.2.1 meta l4proto { tcp, udp } th dport 8080 dnat ip to 10.0.1.2:80
		iifname wan ip6 daddr fd00:3::1 meta l4proto { tcp, udp } th dport 8080 dnat ip6 to [fd00:1::2]:80
	}
	chain srcnat {
		type nat hook postrouting priority srcnat;
		meta nfproto ipv4 oifname wan masquerade
	}
}
`

func newLab(t *testing.T) *lab {
	testkit.NeedNetns(t)
	for _, tool := range []string{"nft", "conntrack"} {
		_, err := exec.LookPath(tool)
		testkit.Need(t, err == nil, "needs "+tool)
	}
	l := &lab{t: t, hosts: map[string]*testkit.Netns{}, dir: t.TempDir()}
	router := testkit.NewNetns(t, "router")
	zones, networks := "", ""
	for zone, a := range addresses {
		host := testkit.NewNetns(t, zone)
		l.hosts[zone] = host
		testkit.Veth(t, router, zone, host, "h0")
		gateway4, gateway6 := a["ipv4"].Prev(), a["ipv6"].Prev()
		for n, end := range map[*testkit.Netns][3]string{
			host: {"h0", a["ipv4"].String(), a["ipv6"].String()}, router: {zone, gateway4.String(), gateway6.String()}} {
			n.Run(t, fmt.Sprintf("echo 0 >/proc/sys/net/ipv6/conf/%[1]s/disable_ipv6; ip addr add %[2]s/24 dev %[1]s; ip addr add %[3]s/64 dev %[1]s nodad",
				end[0], end[1], end[2]))
		}
		host.Run(t, fmt.Sprintf("ip route add default via %s; ip route add default via %s", gateway4, gateway6))
		zones += fmt.Sprintf("config zone\n\toption name '%[1]s'\n\tlist network '%[1]s'\n", zone)
		networks += fmt.Sprintf("config interface '%[1]s'\n\toption device '%[1]s'\n\toption proto 'static'\n", zone)
	}
	l.write("firewall", zones)
	l.write("network", networks)
	router.Run(t, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1\nnft -f - <<'END'"+routerRules+"END")
	l.must(router.Enter())
	var err error
	l.k, err = kernel.New(t.TempDir(), slog.New(slog.NewTextHandler(io.Discard, nil)))
	l.must(err)
	t.Cleanup(func() { l.k.Close() })
	return l
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) write(name, text string) {
	l.t.Helper()
	l.must(os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o644))
}

// install puts the table that the policies ask for into the kernel, and gives
// what was read of them. Rules about foreign marks are left out: with them a
// policy never sees one.
func (l *lab) install(policies string) []config.Policy {
	l.t.Helper()
	text := "config fastpath 'main'\n\toption enabled '1'\n"
	for zone := range addresses {
		text += "config port\n\tlist network '" + zone + "'\n\toption engine 'xdp'\n\toption force '1'\n"
	}
	l.write("fastpath", text+policies)
	c, err := config.Load(config.Dirs{Config: l.dir})
	l.must(err)
	o, err := l.k.Observe(state.Query{HookNumber: c.Main.HookNumber})
	l.must(err)
	o.FW4 = state.FW4{Present: true} // table router stands for it
	o.IPsec = state.Ability{}        // of its rules conntrack tells nothing
	o.Hooks.Ingress = state.Ability{Reason: "the engines alone"}
	want, report := plan.Desired(c, o)
	if want.Table == nil || len(want.Table.Engines) != 1 {
		l.t.Fatalf("no table: %+v", report)
	}
	l.table, l.bit = want.Table, c.Main.CTMark
	l.table.Rules = slices.DeleteFunc(l.table.Rules, func(r state.Rule) bool {
		return len(r.Matches) == 1 && r.Matches[0].Key == state.KeyMark && r.Policy == ""
	})
	l.must(l.k.Apply(state.ReplaceTable{Table: *l.table}))
	l.router("conntrack", "-F")
	return c.Policies
}

// router runs a command in the router.
func (l *lab) router(name string, args ...string) string {
	l.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// flow is a connection. dst is what the client dials.
type flow struct {
	from, to, family, proto string
	sport, dport            uint16
	dscp                    uint8
	forwarded               bool // it goes to the port forward
}

func (f flow) src() netip.AddrPort { return netip.AddrPortFrom(addresses[f.from][f.family], f.sport) }

func (f flow) dialed() netip.AddrPort {
	if f.forwarded {
		return netip.AddrPortFrom(portForward[f.family], 8080)
	}
	return f.dst()
}

// dst is the other end after DNAT.
func (f flow) dst() netip.AddrPort { return netip.AddrPortFrom(addresses[f.to][f.family], f.dport) }

// exchange sends some bytes there and back, four times.
func (l *lab) exchange(f flow) verdict {
	l.t.Helper()
	const limit = 2 * time.Minute
	var listener net.Listener
	var packets net.PacketConn
	l.must(l.hosts[f.to].Inside(func() (err error) {
		if f.proto == "tcp" {
			listener, err = net.Listen("tcp", f.dst().String())
		} else {
			packets, err = net.ListenPacket("udp", f.dst().String())
		}
		return err
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		echo(listener, packets, time.Now().Add(limit))
	}()
	var conn net.Conn
	l.must(l.hosts[f.from].Inside(func() (err error) {
		conn, err = f.dialer(limit).Dial(f.proto, f.dialed().String())
		return err
	}))
	l.must(conn.SetDeadline(time.Now().Add(limit)))
	b := make([]byte, 8)
	for range 4 {
		_, err := conn.Write(b)
		l.must(err)
		_, err = io.ReadFull(conn, b)
		l.must(err)
	}
	if listener != nil {
		listener.Close()
	} else {
		packets.Close()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		l.must(tcp.SetLinger(0)) // the next one may have the same ports
	}
	v := l.judged(f)
	conn.Close()
	<-done
	return v
}

// verdict is the kernel's, and what explain says without knowing it.
type verdict struct {
	accelerated bool
	said        status.Explanation
	sure        bool // explain left no doubt
}

func (v verdict) saidAccelerated() bool { return strings.Contains(v.said.Rule, state.MarkPrefix) }

func (l *lab) judged(f flow) verdict {
	l.t.Helper()
	n, err := l.k.Connection(f.proto, f.src(), f.dialed())
	l.must(err)
	v := verdict{accelerated: n.Mark&l.bit != 0}
	n.Mark &^= l.bit
	v.said = status.Case{Connection: &n, Mark: l.bit, Table: l.table, InSet: l.k.InSet}.Explain()
	v.sure = !strings.Contains(v.said.Text, "can't be told")
	return v
}

func (f flow) dialer(limit time.Duration) *net.Dialer {
	var local net.Addr = net.UDPAddrFromAddrPort(f.src())
	if f.proto == "tcp" {
		local = net.TCPAddrFromAddrPort(f.src())
	}
	return &net.Dialer{LocalAddr: local, Timeout: limit, Control: func(_, _ string, c syscall.RawConn) (err error) {
		level, option := syscall.IPPROTO_IP, syscall.IP_TOS
		if f.family == "ipv6" {
			level, option = syscall.IPPROTO_IPV6, syscall.IPV6_TCLASS
		}
		controlled := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), level, option, int(f.dscp)<<2) })
		return errors.Join(controlled, err)
	}}
}
