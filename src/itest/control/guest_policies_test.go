// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/itest/topo"
)

const twoPolicies = `
config policy 'games'
	option action 'bypass'
	list src 'lan'
	list dest 'wan'
	list proto 'udp'
	list dest_port '5001'

config policy 'listed'
	option action 'bypass'
	option set 'listed'
`

// A policy keeps its flows on the slow path and no others; what a script has put
// into a set stays when the firewall is loaded again, and keeps flows there too;
// defer_packets keeps so many packets there, and no more.
func TestPolicies(t *testing.T) {
	r := build(t, topo.Bridge)
	before := r.acct(t)
	r.rewrite(t, "fastpath", "config fastpath", twoPolicies+"\nconfig fastpath")
	r.start(t)
	r.want(t, lowest(topo.Bridge)...)
	const rounds = 40
	slow := func(what, addr string, port uint16, least, most int) {
		t.Helper()
		if n := r.pingPong(t, addr, port, rounds); n < least || n > most {
			t.Errorf("%s: %d of %d packets took the slow path, want %d to %d", what, n, 2*rounds, least, most)
		} else {
			t.Logf("%s: %d of %d packets took the slow path", what, n, 2*rounds)
		}
	}
	slow("no policy", topo.Serverv4, 5000, 2, 6)
	slow("no policy", topo.Serverv6, 5000, 2, 6)
	slow("policy games", topo.Serverv4, 5001, 2*rounds, 2*rounds)
	slow("policy games", topo.Serverv6, 5001, 2*rounds, 2*rounds)
	out, _ := r.command("explain", "udp", "192.168.1.101:6000", net.JoinHostPort(topo.Serverv4, "5001")).Output()
	if !strings.Contains(string(out), `policy "games"`) {
		t.Errorf("explain: %s", out)
	}

	r.Router.Run(t, "nft add element inet fastpath listed6 { "+topo.Serverv6+" timeout 1h }")
	r.log.Reset()
	r.firewall(t)
	r.eventually(t, "the flows are judged again", func() bool { return strings.Contains(r.log.String(), "install table inet fastpath") })
	r.settled(t)
	r.Router.Run(t, "nft get element inet fastpath listed6 { "+topo.Serverv6+" }; nft '"+slowTable+"'")
	slow("policy listed", topo.Serverv6, 5002, 2*rounds, 2*rounds)
	slow("not listed", topo.Serverv4, 5002, 2, 6)

	const deferred = 20
	r.rewrite(t, "fastpath", "option enabled '1'", fmt.Sprintf("option enabled '1'\n\toption defer_packets '%d'", deferred))
	r.reload(t)
	r.eventually(t, "conntrack counts", func() bool { return r.acct(t) == "1" })
	r.settled(t)
	slow("defer_packets", topo.Serverv4, 5003, deferred, deferred+2)
	r.stop(t, syscall.SIGTERM)
	if after := r.acct(t); after != before {
		t.Errorf("nf_conntrack_acct was %s before, and is %s", before, after)
	}
}

func (r *router) acct(t *testing.T) string {
	return strings.TrimSpace(r.Router.Run(t, "cat /proc/sys/net/netfilter/nf_conntrack_acct"))
}

// pingPong sends datagrams from host1 and back, one at a time, and gives the
// number of packets that took the slow path.
func (r *router) pingPong(t *testing.T, addr string, port uint16, rounds int) int {
	t.Helper()
	count := func() int {
		n, err := strconv.Atoi(strings.Fields(strings.SplitAfter(r.Router.Run(t, "nft list table inet slow"), "packets ")[1])[0])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	end := netip.AddrPortFrom(netip.MustParseAddr(addr), port)
	var server, client *net.UDPConn
	if err := r.Provider.Inside(func() (err error) {
		server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(end))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := r.Host1.Inside(func() (err error) {
		client, err = net.DialUDP("udp", &net.UDPAddr{Port: 6000}, net.UDPAddrFromAddrPort(end))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	before, b := count(), make([]byte, 100)
	for range rounds {
		server.SetDeadline(time.Now().Add(patience))
		client.SetDeadline(time.Now().Add(patience))
		if _, err := client.Write(b); err != nil {
			t.Fatal(err)
		}
		_, peer, err := server.ReadFromUDP(b)
		if err == nil {
			_, err = server.WriteToUDP(b, peer)
		}
		if err == nil {
			_, err = client.Read(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return count() - before
}
