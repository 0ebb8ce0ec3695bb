// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/itest/topo/traffic"
	"fastpath/src/state"
	"fastpath/src/status"
	"fastpath/src/testkit"
)

// engineLab is a router with an engine on both ports, and the real daemon on it:
//
//	host                  router                     server
//	h0 ─────────────── lan     wan ───────────────── s0
//	10.0.1.2      10.0.1.1     192.0.2.1      192.0.2.2
//	fd00:1::2    fd00:1::1     fd00:2::1      fd00:2::2
//
// IPv4 is masqueraded behind wan. The router's own first rule at its forward
// hook counts what takes the slow path.
type engineLab struct {
	*proc
	host, server *testkit.Netns
}

const engineRules = `
table inet fw4 {
	chain slow {
		type filter hook forward priority -300;
		counter
	}
	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state established,related accept
		iifname lan oifname wan accept
	}
	chain srcnat {
		type nat hook postrouting priority srcnat;
		meta nfproto ipv4 oifname wan masquerade
	}
}
`

func newEngineLab(t *testing.T, options string) *engineLab {
	t.Helper()
	l := &engineLab{host: testkit.NewNetns(t, "host"), server: testkit.NewNetns(t, "server")}
	router := testkit.NewNetns(t, "router")
	testkit.Veth(t, l.host, "h0", router, "lan")
	testkit.Veth(t, router, "wan", l.server, "s0")
	// With GRO a veth device has NAPI, and so takes what XDP transmits at the other end.
	const address = "echo 0 >/proc/sys/net/ipv6/conf/%[1]s/disable_ipv6; ip addr add %[2]s dev %[1]s; ip addr add %[3]s dev %[1]s nodad\n"
	l.host.Run(t, "ethtool -K h0 gro on\n"+fmt.Sprintf(address, "h0", "10.0.1.2/24", "fd00:1::2/64")+
		"ip route add default via 10.0.1.1; ip route add default via fd00:1::1")
	l.server.Run(t, "ethtool -K s0 gro on\n"+fmt.Sprintf(address, "s0", "192.0.2.2/24", "fd00:2::2/64")+
		"ip route add default via fd00:2::1")
	router.Run(t, fmt.Sprintf(address, "lan", "10.0.1.1/24", "fd00:1::1/64")+fmt.Sprintf(address, "wan", "192.0.2.1/24", "fd00:2::1/64")+`
		sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
		nft -f - <<'END'`+engineRules+"END")
	l.proc = &proc{t: t, ns: router, config: configDir(t, engineConfig(options)), run: t.TempDir()}
	for name, text := range map[string]string{
		"network":  engineInterface("lan", "10.0.1.1") + engineInterface("wan", "192.0.2.1"),
		"firewall": engineZone("lan") + engineZone("wan") + "config forwarding\n\toption src 'lan'\n\toption dest 'wan'\n",
	} {
		if err := os.WriteFile(filepath.Join(l.config, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(l.run, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	l.manager = conn
	t.Cleanup(func() { conn.Close() })
	return l
}

func engineConfig(options string) string {
	return good + "config port\n\tlist network 'lan'\n" + options + "config port\n\tlist network 'wan'\n" + options
}

func engineInterface(name, address string) string {
	return fmt.Sprintf("config interface '%[1]s'\n\toption device '%[1]s'\n\toption proto 'static'\n\toption ipaddr '%s'\n\toption netmask '255.255.255.0'\n", name, address)
}

func engineZone(name string) string {
	return fmt.Sprintf("config zone\n\toption name '%[1]s'\n\tlist network '%[1]s'\n\toption input 'ACCEPT'\n\toption output 'ACCEPT'\n\toption forward 'ACCEPT'\n", name)
}

// until polls, because a busy machine takes its time.
func (l *engineLab) until(what string, ok func() bool) {
	l.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("never: %s; status:\n%s\nlog:\n%s", what, l.inside("status", "--run", l.run).stdout, l.log.String())
		}
	}
}

func (l *engineLab) running(kind string) {
	l.t.Helper()
	l.until("engine "+kind+" on both ports", func() bool {
		d := l.document()
		return d.Engines["lan"].Kind == kind && d.Engines["wan"].Kind == kind
	})
}

// slow is how many bytes have taken the slow path.
func (l *engineLab) slow() (bytes int64) {
	l.t.Helper()
	words := strings.Fields(l.ns.Run(l.t, "nft list chain inet fw4 slow"))
	for i, w := range words {
		if w == "bytes" {
			bytes, _ = strconv.ParseInt(words[i+1], 10, 64)
			return bytes
		}
	}
	l.t.Fatalf("no counter in %q", words)
	return 0
}

// flows are the flows that an engine carries.
func (l *engineLab) flows(filter ...string) (flows []state.Flow) {
	l.t.Helper()
	r := l.inside(append([]string{"flows", "--json", "--run", l.run}, filter...)...)
	var list struct{ Flows []state.Flow }
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || r.code != 0 {
		l.t.Fatalf("flows: %v, %+v", err, r)
	}
	return list.Flows
}

// clean: nothing of ours is left in the kernel.
func (l *engineLab) clean() {
	l.t.Helper()
	l.until("the kernel as it was before", func() bool {
		links := l.ns.Run(l.t, "ip -d link")
		marks := l.ns.Run(l.t, "conntrack -L -m 0x40000000/0x40000000 2>/dev/null")
		tables := l.ns.Run(l.t, "nft list tables")
		return !strings.Contains(links, "xdp") && strings.TrimSpace(marks) == "" && !strings.Contains(tables, "fastpath")
	})
}

// taken says why the engine doesn't carry the flow to a port, or nil.
func (l *engineLab) taken(kind, proto string, port uint16) error {
	flows := l.flows(proto, "port", strconv.Itoa(int(port)))
	if len(flows) == 1 && flows[0].Engine == kind && flows[0].In == "lan" && flows[0].Out == "wan" {
		return nil
	}
	return fmt.Errorf("no engine took the flow; flows %+v\nlog:\n%s", flows, l.log.String())
}

// transfer sends some megabytes by TCP and checks that nearly all of them took
// the engine; the transfer itself checks each byte.
func (l *engineLab) transfer(kind string, tr traffic.Transfer) {
	l.t.Helper()
	before := int64(0)
	tr.Client, tr.Server = l.host, l.server
	tr.Steady = func() error {
		err := l.taken(kind, "tcp", tr.Port)
		for end := time.Now().Add(patience); err != nil && time.Now().Before(end); err = l.taken(kind, "tcp", tr.Port) {
			time.Sleep(20 * time.Millisecond)
		}
		before = l.slow()
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	r, err := tr.Run(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	if slow := l.slow() - before; slow > r.MostSlow() || r.Received != r.Sent {
		l.t.Errorf("%s over %s: %+v, %d bytes took the slow path", tr, kind, r, slow)
	}
}

// echo sends datagrams to and fro until the engine has the flow, which is two
// seconds after its first packet at the earliest, then some thousand more, and
// checks each byte.
func (l *engineLab) echo(kind, server string, port uint16) {
	l.t.Helper()
	address := netip.AddrPortFrom(netip.MustParseAddr(server), port)
	var far *net.UDPConn
	var near net.Conn
	var err error
	l.server.Do(l.t, func() { far, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(address)) })
	if err != nil {
		l.t.Fatal(err)
	}
	defer far.Close()
	l.host.Do(l.t, func() { near, err = net.Dial("udp", address.String()) })
	if err != nil {
		l.t.Fatal(err)
	}
	defer near.Close()
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := far.ReadFromUDPAddrPort(buf)
			if err != nil {
				return // closed
			}
			_, _ = far.WriteToUDPAddrPort(buf[:n], from) // what is lost is missed at the other end
		}
	}()
	for end := time.Now().Add(patience); ; {
		for i := range 100 {
			l.bounce(near, i)
		}
		if err = l.taken(kind, "udp", port); err == nil {
			break
		}
		if time.Now().After(end) {
			l.t.Fatal(err)
		}
	}
	before, lost := l.slow(), 0
	for i := range 5000 {
		if !l.bounce(near, i) {
			lost++
		}
	}
	if slow := l.slow() - before; slow > 64<<10 || lost > 50 {
		l.t.Errorf("UDP to %s over %s: %d of 5000 datagrams lost, %d bytes took the slow path", server, kind, lost, slow)
	}
}

// bounce sends the i-th datagram and waits for its echo, but not for ever.
func (l *engineLab) bounce(conn net.Conn, i int) (arrived bool) {
	l.t.Helper()
	want := bytes.Repeat([]byte(fmt.Sprintf("datagram %d;", i)), 1+i%80)
	if _, err := conn.Write(want); err != nil {
		l.t.Fatal(err)
	}
	got := make([]byte, 2048)
	for {
		conn.SetReadDeadline(time.Now().Add(time.Second))
		n, err := conn.Read(got)
		switch {
		case err != nil: // lost
			return false
		case bytes.Equal(got[:n], want):
			return true
		case !bytes.HasPrefix(got[:n], []byte("datagram ")): // else it is a late one
			l.t.Fatalf("datagram %d came back as %q", i, got[:n])
		}
	}
}

// The whole way: configuration, plan, engine, conntrack, packets; and back.
func TestEngines(t *testing.T) {
	for _, kind := range []string{state.EngineXDP, state.EngineAFXDP} {
		t.Run(kind, func(t *testing.T) {
			l := newEngineLab(t, "\toption engine '"+kind+"'\n\toption force '1'\n")
			before := l.ns.Run(t, "ethtool -k lan; ethtool -k wan")
			l.start()
			l.running(kind)
			if r := l.inside("plan", "--config", l.config, "--run", l.run); r.code != 0 || r.stdout != "nothing to do\n" {
				t.Errorf("plan beside the daemon: %+v", r)
			}
			v4, v6 := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("fd00:2::2")
			l.transfer(kind, traffic.Transfer{Addr: v4, Port: 5001, Up: true, Bytes: 20e6})
			l.transfer(kind, traffic.Transfer{Addr: v4, Port: 5002, Bytes: 20e6})
			l.transfer(kind, traffic.Transfer{Addr: v6, Port: 5003, Up: true, Bytes: 5e6})
			l.echo(kind, "192.0.2.2", 5004)
			l.echo(kind, "fd00:2::2", 5005)
			l.counted()

			l.signal(syscall.SIGTERM)
			if code := l.ended(); code != 0 {
				t.Errorf("stopped with %d; log:\n%s", code, l.log.String())
			}
			l.clean()
			if after := l.ns.Run(t, "ethtool -k lan; ethtool -k wan"); after != before {
				t.Errorf("offloads before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// counted: each port's engine has forwarded what was sent. A sample may be two
// seconds old.
func (l *engineLab) counted() {
	l.t.Helper()
	l.until("1000 packets by each port's engine in status", func() bool {
		ports := l.document().Traffic.Ports
		few := slices.ContainsFunc(ports, func(p status.PortTraffic) bool { return p.Engine.Packets < 1000 })
		return len(ports) == 2 && !few
	})
}

// A daemon that is killed leaves no program, and what it leaves otherwise the
// next one, or cleanup, takes away.
func TestEnginesKilled(t *testing.T) {
	for _, kind := range []string{state.EngineXDP, state.EngineAFXDP} {
		t.Run(kind, func(t *testing.T) {
			l := newEngineLab(t, "\toption engine '"+kind+"'\n\toption force '1'\n")
			l.start()
			l.running(kind)
			v4 := netip.MustParseAddr("192.0.2.2")
			tr := traffic.Transfer{Client: l.host, Server: l.server, Addr: v4, Port: 5001, Up: true, Bytes: 5e6}
			tr.Steady = func() error {
				l.until("the flow", func() bool { return len(l.flows("tcp")) == 1 })
				l.signal(syscall.SIGKILL)
				l.ended()
				l.until("no program", func() bool { return !strings.Contains(l.ns.Run(t, "ip -d link"), "xdp") })
				return nil // TCP goes on by the slow path
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if r, err := tr.Run(ctx); err != nil || r.Received != r.Sent {
				t.Errorf("TCP over a killed daemon: %+v, %v", r, err)
			}
			l.start()
			l.running(kind)
			l.transfer(kind, traffic.Transfer{Addr: v4, Port: 5002, Up: true, Bytes: 5e6})
			l.signal(syscall.SIGKILL)
			l.ended()
			if r := l.inside("cleanup", "--config", l.config, "--run", l.run); r != (result{}) {
				t.Errorf("cleanup: %+v", r)
			}
			l.clean()
		})
	}
}
