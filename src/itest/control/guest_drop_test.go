// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"encoding/json"
	"testing"

	"fastpath/src/itest/topo"
	"fastpath/src/itest/topo/traffic"
	"fastpath/src/testkit"
)

const dropServer = `
config drop 'server'
	list source '` + topo.Serverv4 + `'
	list source '` + topo.Serverv6 + `'

`

// drops are the packets that the status has counted: of listed sources at a port,
// and of those that source validation dropped.
func (r *router) drops(t *testing.T, port string) (listed, invalid int) {
	t.Helper()
	var s struct {
		Drops struct {
			Ports   map[string]int `json:"ports"`
			Invalid int            `json:"invalid"`
		} `json:"drops"`
	}
	out, err := r.command("status", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.Drops.Ports[port], s.Drops.Invalid
}

func ping(n *testkit.Netns, more, addr string) bool {
	_, err := n.Sh("ping -q -c 1 -W 2 -w 4 " + more + " " + addr)
	return err == nil
}

// silent says that nothing comes from the server while 20 packets go there.
func (r *router) silent(t *testing.T, s *traffic.Streaming) bool {
	t.Helper()
	s.Begin()
	r.eventually(t, "packets to the server", func() bool { return s.Up.Seen().Received > 20 })
	return s.Down.Seen().Received == 0
}

// TestDrop: what a listed server sends is dropped where it comes in, inside PPPoE in
// a VLAN, before anything else sees it, also on a connection that is accelerated
// already; without the list it passes again.
func TestDrop(t *testing.T) {
	v := topo.PPPoEVLAN
	r := build(t, v)
	r.start(t)
	r.want(t, lowest(v)...)
	servers := []string{topo.Serverv4, topo.Serverv6}
	stream := r.stream(t, r.Host1, topo.Serverv4, 5000)
	r.fast(t, stream, "before the list")
	r.rewrite(t, "fastpath", "config fastpath", dropServer+"config fastpath")
	r.reload(t)
	for i, addr := range servers {
		r.eventually(t, "no answer of "+addr, func() bool { return !ping(r.Host1, "", addr) })
		if n, _ := r.drops(t, "wan"); n <= i {
			t.Errorf("%d packets counted at wan after %s", n, addr)
		}
	}
	r.eventually(t, "the end of the stream from it", func() bool { return r.silent(t, stream) })
	before := r.slowPackets(t)
	if silent, slow := r.silent(t, stream), r.slowPackets(t)-before; !silent || slow > 2 {
		t.Errorf("silent %v, %d packets by the slow path: want the flow accelerated as before", silent, slow)
	}
	r.rewrite(t, "fastpath", dropServer, "\n")
	r.reload(t)
	for _, addr := range servers {
		r.eventually(t, "an answer of "+addr, func() bool { return ping(r.Host1, "", addr) })
	}
	r.flowing(t, stream)
}

// TestValidation: a host that says to be another is heard without validation only,
// by the router and behind it.
func TestValidation(t *testing.T) {
	const strange4, strange6 = "10.99.0.1", "2001:db8:99::1"
	r := build(t, topo.Bridge)
	r.Host1.Run(t, "ip addr add "+strange4+"/32 dev lo; ip addr add "+strange6+"/128 dev lo nodad")
	r.start(t)
	invalid := func() int { _, n := r.drops(t, "wan"); return n }
	r.eventually(t, "an answer", func() bool { return ping(r.Host1, "", topo.Serverv4) && ping(r.Host1, "", topo.Serverv6) })
	r.rewrite(t, "fastpath", "option enabled '1'", "option enabled '1'\n\toption source_validation 'strict'")
	r.reload(t)
	for _, to := range []string{topo.RouterLANv4, topo.Serverv4, topo.RouterLANv6, topo.Serverv6} {
		from := strange4
		if to == topo.RouterLANv6 || to == topo.Serverv6 {
			from = strange6
		}
		r.eventually(t, "packets from "+from+" to "+to+" are dropped", func() bool {
			before := invalid()
			return !ping(r.Host1, "-I "+from, to) && invalid() > before
		})
		before := invalid()
		if !ping(r.Host1, "", to) || invalid() != before {
			t.Errorf("honest packets to %s are dropped", to)
		}
	}
}
