// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

// The ends of the one UDP flow of newEngineProc.
const client, server = "192.0.2.1:1000", "198.51.100.1:2000"

// engineProc is a router with engine xdp on both ports.
type engineProc struct {
	*proc
	left *testkit.Netns // where the client is
}

// newEngineProc puts it between a client and a server that answers.
func newEngineProc(t *testing.T) (p *engineProc, conn *net.UDPConn) {
	t.Helper()
	p = &engineProc{proc: newProc(t)}
	text := good + strings.ReplaceAll(ports, "option device", "option engine 'xdp'\n\toption force '1'\n\toption device")
	if err := os.WriteFile(filepath.Join(p.config, "fastpath"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	left, right := testkit.NewNetns(t, "left"), testkit.NewNetns(t, "right")
	p.left = left
	p.ns.Run(t, "ip link del p0\nip link del p1")
	testkit.Veth(t, left, "l0", p.ns, "p0")
	testkit.Veth(t, right, "r0", p.ns, "p1")
	p.ns.Run(t, "sysctl -qw net.ipv4.ip_forward=1\nip addr add 192.0.2.254/24 dev p0\nip addr add 198.51.100.254/24 dev p1")
	// With GRO the outer ends have NAPI, without which a veth takes no XDP frames.
	left.Run(t, "ethtool -K l0 gro on\nip addr add 192.0.2.1/24 dev l0\nip route add default via 192.0.2.254")
	right.Run(t, "ethtool -K r0 gro on\nip addr add 198.51.100.1/24 dev r0\nip route add default via 198.51.100.254")
	echo := udp(t, right, server, "")
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := echo.ReadFromUDP(buf)
			if err != nil {
				return
			}
			echo.WriteToUDP(buf[:n], from)
		}
	}()
	return p, udp(t, left, client, server)
}

func udp(t *testing.T, ns *testkit.Netns, local, remote string) (c *net.UDPConn) {
	t.Helper()
	from := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(local))
	var err error
	ns.Do(t, func() {
		if remote == "" {
			c, err = net.ListenUDP("udp", from)
		} else {
			c, err = net.DialUDP("udp", from, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(remote)))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// talk sends and takes answers until done says so.
func (p *proc) talk(conn *net.UDPConn, what string, done func() bool) {
	p.t.Helper()
	buf := make([]byte, 2048)
	for end := time.Now().Add(patience); ; {
		for range 20 {
			conn.Write([]byte("hello"))
			conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			conn.Read(buf) // a lost one is for the faults' tests
		}
		if done() {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("never: %s\nstatus %s\nexplain %+v\nlog:\n%s", what, p.inside("status", "--run", p.run).stdout,
				p.inside("explain", "--run", p.run, "udp", client, server), p.log.String())
		}
	}
}

func (p *proc) flows(filter ...string) []state.Flow {
	p.t.Helper()
	r := p.inside(append([]string{"flows", "--json", "--run", p.run}, filter...)...)
	var answer struct{ Flows []state.Flow }
	if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil || r.code != 0 {
		p.t.Fatalf("flows: %v, %+v", err, r)
	}
	return answer.Flows
}

// answers asks each command line and wants its answer to contain the other string.
func (p *engineProc) answers(cases [][2]string) {
	p.t.Helper()
	for _, c := range cases {
		words := strings.Fields(c[0])
		begin := time.Now()
		r := p.inside(append([]string{words[0], "--run", p.run}, words[1:]...)...)
		p.t.Logf("fastpath %s: %v", c[0], time.Since(begin).Round(time.Millisecond))
		if r.code != 0 || !strings.Contains(r.stdout, c[1]) {
			p.t.Errorf("%s: exit code %d, %.500q %q, want %q", c[0], r.code, r.stdout, r.stderr, c[1])
		}
	}
}

// TestEngineSeen: what an engine does shows in every command.
func TestEngineSeen(t *testing.T) {
	_, err := exec.LookPath("conntrack")
	testkit.Need(t, err == nil, "needs conntrack")
	p, conn := newEngineProc(t)
	p.start()
	if d := p.document(); d.Engines["p0"].Kind != state.EngineXDP || d.Engines["p1"].Kind != state.EngineXDP {
		t.Fatalf("engines %+v, refused %+v; log:\n%s", d.Engines, d.Refused, p.log.String())
	}
	carried := func() bool {
		f := p.flows("engine", "xdp", "udp", "192.0.2.1", "port", "2000")
		return len(f) == 1 && f[0].Orig.Packets > 10 && f[0].Reply.Packets > 10
	}
	p.talk(conn, "an engine's flow", carried)
	if f := p.flows("engine", "xdp")[0]; f.In != "p0" || f.Out != "p1" || f.Orig.Src != "192.0.2.1" || !f.Counted || f.Orig.Bytes != 33*f.Orig.Packets {
		t.Errorf("flow %+v: want 33 bytes of IP a packet, from p0 to p1", f)
	}
	p.talk(conn, "engine packets in status", func() bool { return p.document().Traffic.SinceStart.Engines.Packets > 100 })
	d := p.document()
	if s := d.Traffic.SinceStart; s.Percent == nil || d.Traffic.EngineFlows != 1 || s.Engines.Bytes != 33*s.Engines.Packets {
		t.Errorf("traffic %+v", d.Traffic)
	}
	p.answers([][2]string{
		{"status", "engine xdp on p0, p1"},
		{"status", "the engine forwarded"},
		{"status --prometheus", "\nfastpath_flows{path=\"engine\"} 1\n"},
		{"flows", "p0 -> p1"},
		{"explain udp " + server + " " + client, "By engine xdp, from p0 to p1: "},
		{"plan --config " + p.config, "nothing to do\n"},
		{"flush engine xdp port 1000", "1 engine flow sent back to the slow path, to be judged again; flows of the flowtable can't"},
	})
	p.talk(conn, "the flow is taken again", carried)
	if r := p.inside("flush", "--run", p.run); r.code != 0 || !strings.HasPrefix(r.stdout, "1 engine flow and 0 flows of the flowtable sent back") {
		t.Errorf("flush everything: %+v", r)
	}
	p.talk(conn, "and again", carried)
	p.signal(syscall.SIGTERM)
	if code := p.ended(); code != 0 || strings.Contains(p.ns.Run(t, "ip link show"), "xdp") {
		t.Errorf("stopped with %d; log:\n%s", code, p.log.String())
	}
	if left := p.ns.Run(t, "conntrack -L --mark 0x40000000/0x40000000 2>&1"); !strings.Contains(left, "0 flow entries") {
		t.Errorf("the bit stays: %s", left)
	}
}

// A connection that the rules leave alone stays on the slow path, and explain
// names the rule.
func TestEngineLeavesAlone(t *testing.T) {
	p, conn := newEngineProc(t)
	p.start()
	p.ns.Run(t, "nft add table ip mine\nnft 'add chain ip mine forward { type filter hook forward priority 0 ; }'\nnft add rule ip mine forward ct mark set ct mark or 0x100")
	explained := func() result { return p.inside("explain", "--run", p.run, "udp", client, server) }
	p.talk(conn, "the mark in explain", func() bool {
		r := explained()
		return r.code == exitSlow && strings.Contains(r.stdout, "conntrack mark 0x100 is another program's") && strings.Contains(r.stdout, "(rule: ct mark and 0xbfffffff != 0 return)")
	})
	if f := p.flows(); len(f) != 0 {
		t.Errorf("accelerated all the same: %+v", f)
	}
	p.talk(conn, "slow packets in status", func() bool { return p.document().Traffic.SinceStart.Slow.Packets > 10 })
	if s := p.document().Traffic.SinceStart; s.Engines.Packets != 0 || s.Percent == nil || *s.Percent != 0 {
		t.Errorf("traffic %+v", s)
	}
}

// exchange sends from each port and waits for the answer, three times.
func (p *engineProc) exchange(first uint16, count int) {
	p.t.Helper()
	p.left.Do(p.t, func() {
		buf := make([]byte, 2048)
		for port := range uint16(count) {
			from := netip.AddrPortFrom(netip.MustParseAddrPort(client).Addr(), first+port)
			c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(from), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(server)))
			if err != nil {
				p.t.Fatal(err)
			}
			for range 3 {
				c.Write([]byte("hello"))
				c.SetReadDeadline(time.Now().Add(time.Second))
				c.Read(buf)
			}
			c.Close()
		}
	})
}

// TestManyFlows: 10,000 flows of an engine are listed, found and flushed.
func TestManyFlows(t *testing.T) {
	const first, count = 20_000, 10_000
	p, _ := newEngineProc(t)
	p.start()
	p.ns.Run(t, "sysctl -qw net.netfilter.nf_conntrack_udp_timeout=600 net.netfilter.nf_conntrack_udp_timeout_stream=600")
	p.exchange(first, count)
	time.Sleep(2 * time.Second) // conntrack trusts a UDP connection that lives so long
	p.exchange(first, count)
	for end := time.Now().Add(patience); len(p.flows()) < count; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d flows; log:\n%s", len(p.flows()), p.log.String())
		}
	}
	for end := time.Now().Add(patience); p.document().Traffic.EngineFlows < count; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("status counts %d flows; log:\n%s", p.document().Traffic.EngineFlows, p.log.String())
		}
	}
	p.answers([][2]string{
		{"flows", "\n10000 flows."},
		{"flows --json", "\"sport\": 29999"},
		{"flows engine xdp port 20001", "\n1 flow."},
		{"explain udp 192.0.2.1:29999 " + server, "By engine xdp"},
		{"status", "10000 flows in engines"},
		{"flush port 20001", "1 engine flow sent back"},
		{"flush", "9999 engine flows and 0 flows"},
	})
}
