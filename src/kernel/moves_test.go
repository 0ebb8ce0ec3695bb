// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// bridge makes br-lan with two ports whose far ends are peer-lan1 and peer-lan2.
func bridge(t *testing.T) {
	t.Helper()
	veth(t, "lan1", "lan2")
	batchIP(t, `
		link add br-lan type bridge
		link set lan1 master br-lan
		link set lan2 master br-lan
		link set peer-lan1 up
		link set peer-lan2 up
		link set br-lan up
		addr add 192.168.1.1/24 dev br-lan`)
	for _, port := range []string{"lan1", "lan2"} { // until then it may have no host
		for end := time.Now().Add(patience); !strings.Contains(run(t, "bridge link show dev "+port), "forwarding"); {
			if time.Now().After(end) {
				t.Fatalf("%s doesn't forward", port)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// TestWatchMoves: a host of a bridge that turns up at another port is an event,
// and so is a neighbour with another MAC; that they come, stay and go is none.
func TestWatchMoves(t *testing.T) {
	inNamespace(t)
	bridge(t)
	const host = "02:00:00:00:00:77"
	fdb := func(what, port string) string {
		return "bridge fdb " + what + " " + host + " dev " + port + " master dynamic"
	}
	run(t, fdb("add", "lan1")) // before anybody watches
	k := newKernel(t)
	events := watch(t, k)
	for calm := time.After(2 * time.Second); calm != nil; { // the ports' links come up
		select {
		case <-events:
			calm = time.After(2 * time.Second)
		case <-calm:
			calm = nil
		}
	}
	neigh := "ip neigh replace 192.168.1.77 dev br-lan nud reachable lladdr "
	for _, c := range []struct {
		what, command string
		event         bool
	}{
		{"it stays", fdb("replace", "lan1"), false},
		{"it moves", fdb("replace", "lan2"), true},
		{"it is gone", fdb("del", "lan2"), false},
		{"it comes back where it was", fdb("add", "lan2"), false},
		{"it is gone again", fdb("del", "lan2"), false},
		{"it comes back elsewhere", fdb("add", "lan1"), true},
		{"a neighbour", neigh + host, false},
		{"the same", neigh + host, false},
		{"another state", "ip neigh replace 192.168.1.77 dev br-lan nud stale lladdr " + host, false},
		{"another MAC", neigh + "02:00:00:00:00:78", true},
		{"it fails", "ip neigh replace 192.168.1.77 dev br-lan nud failed", false},
		{"the first MAC", neigh + host, true},
	} {
		run(t, c.command)
		if c.event {
			comes(t, events, c.what)
		} else if err := quiet(events); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if o := observe(t, k); o.Routing.Moved != nil {
		t.Errorf("moved: %q, but there are no flows", o.Routing.Moved)
	}
	if len(k.hosts.moved) != 0 {
		t.Errorf("moves of hosts without flows are kept: %v", k.hosts.moved)
	}
}

// neighbourMessage is a message about a neighbour, or a bridge's host.
func neighbourMessage(family byte, dev int, attrs func(*writer)) []byte {
	w := writer{b: []byte{family, 0, 0, 0, byte(dev), 0, 0, 0, unix.NUD_REACHABLE, 0, 0, 0}}
	attrs(&w)
	return w.b
}

// has tells m that a host has a MAC; at tells that it is at a port.
func (m *moves) has(ip string, mac byte) {
	m.note(neighbourMessage(unix.AF_INET, 9, func(w *writer) {
		w.attr(unix.NDA_DST, netip.MustParseAddr(ip).AsSlice())
		w.attr(unix.NDA_LLADDR, []byte{2, 0, 0, 0, 0, mac})
	}))
}

func (m *moves) at(mac byte, port int) {
	m.note(neighbourMessage(unix.AF_BRIDGE, port, func(w *writer) {
		w.attr(unix.NDA_LLADDR, []byte{2, 0, 0, 0, 0, mac})
		w.u32(unix.NDA_MASTER, 9)
	}))
}

// TestMovesPending: only what moved of hosts with flows is told, until all flows
// have been learnt anew. What conntrack says is made up: this kernel may have no
// flowtables.
func TestMovesPending(t *testing.T) {
	const seven = "02:00:00:00:00:07 has moved to another port"
	for _, c := range []struct {
		what     string
		moves    func(m *moves)
		gateways []string
		flows    []string
		want     string
	}{
		{"nothing", func(*moves) {}, nil, []string{"192.168.1.7"}, ""},
		{"one with flows", func(m *moves) { m.at(7, 2) }, nil, []string{"192.168.1.7"}, seven},
		{"one without", func(m *moves) { m.at(7, 2) }, nil, []string{"192.168.1.8"}, ""},
		{"one that nobody sends to", func(m *moves) { m.at(99, 1); m.at(99, 2) }, nil, []string{"192.168.1.8"}, ""},
		{"both, one by its MAC", func(m *moves) { m.at(7, 2); m.has("192.168.1.8", 0x88) }, nil, []string{"192.168.1.8", "192.168.1.7"},
			seven + ", 192.168.1.8 has another MAC"},
		{"a router that others are behind", func(m *moves) { m.at(7, 2) }, []string{"192.168.1.7"}, []string{"10.0.0.1"}, seven},
		{"a router, and no flow at all", func(m *moves) { m.at(7, 2) }, []string{"192.168.1.7"}, nil, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			k := &Kernel{hosts: newMoves()}
			for _, mac := range []byte{7, 8} {
				k.hosts.has(fmt.Sprintf("192.168.1.%d", mac), mac)
				k.hosts.at(mac, 1)
			}
			c.moves(k.hosts)
			tells(t, k, c.gateways, c.flows, c.want)
			tells(t, k, c.gateways, c.flows, c.want)
			k.learnAnew(state.AddDevices{}) // keeps the flows
			tells(t, k, c.gateways, c.flows, c.want)
			k.learnAnew(state.ReplaceTable{})
			if asked := tells(t, k, c.gateways, c.flows, ""); asked != 0 {
				t.Errorf("conntrack was asked %d times about nothing", asked)
			}
		})
	}
}

// tells compares what is pending, while flows come from these addresses.
func tells(t *testing.T, k *Kernel, gateways, from []string, want string) (asked int) {
	t.Helper()
	via := map[netip.Addr]bool{}
	for _, g := range gateways {
		via[netip.MustParseAddr(g)] = true
	}
	words, err := k.hosts.pending(func(each func(state.Flow)) error {
		asked++
		for _, src := range from {
			each(state.Flow{Orig: state.Tuple{Src: src, Dst: "203.0.113.1"}, Reply: state.Tuple{Src: "203.0.113.1", Dst: "198.51.100.2"}})
		}
		return nil
	}, via)
	must(t, err)
	if got := strings.Join(words, ", "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	return asked
}

// TestMovesAreBounded: a flood of made up MACs doesn't fill the router's memory.
func TestMovesAreBounded(t *testing.T) {
	m := newMoves()
	for i := range 3 * mostRemembered {
		for port := range 2 {
			m.note(neighbourMessage(unix.AF_BRIDGE, port, func(w *writer) {
				w.attr(unix.NDA_LLADDR, []byte{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)})
				w.u32(unix.NDA_MASTER, 9)
			}))
		}
	}
	if n := len(m.ports) + len(m.macs); n > mostRemembered {
		t.Errorf("%d are remembered", n)
	}
	if len(m.moved) > mostRemembered {
		t.Errorf("%d moves wait", len(m.moved))
	}
}

// sentFrom makes a router with three addresses, and rules that send connections
// to ports from them: 1002 from .2, 1003 from .3, 1001 from .4 as they are, and
// 1009 from an address that never was the router's.
func sentFrom(t *testing.T) {
	t.Helper()
	veth(t, "wan")
	batchIP(t, `
		addr add 198.51.100.2/24 dev wan
		addr add 198.51.100.3/24 dev wan
		addr add 198.51.100.4/24 dev wan
		neigh add 198.51.100.1 dev wan lladdr 02:00:00:00:00:01 nud permanent
		route add default via 198.51.100.1`)
	load(t, `table ip nat { chain post { type nat hook postrouting priority 100;
		udp dport 1002 snat to 198.51.100.2; udp dport 1003 snat to 198.51.100.3; udp dport 1009 snat to 198.51.100.99; }; }`)
	for _, port := range []int{1001, 1002, 1003, 1009} {
		send(t, fmt.Sprintf("198.51.100.4:%d", 2000+port), fmt.Sprintf("203.0.113.1:%d", port))
	}
}

func wantLost(t *testing.T, k *Kernel, when, want string) []netip.Addr {
	t.Helper()
	lost := observe(t, k).Routing.Lost
	if got := fmt.Sprint(lost); got != want {
		t.Fatalf("%s: lost %s, want %s", when, got, want)
	}
	return lost
}

// TestLost: connections of an address that is gone are deleted, and no others.
func TestLost(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	events := watch(t, k)
	sentFrom(t)
	comes(t, events, "the router is made")
	wantLost(t, k, "nothing has happened", "[]")
	run(t, "ip addr del 198.51.100.3/24 dev wan")
	comes(t, events, "an address goes")
	run(t, "ip addr add 198.51.100.3/24 dev wan")
	wantLost(t, k, "it has come back", "[]")
	run(t, "ip addr del 198.51.100.2/24 dev wan") // takes the secondary ones along
	comes(t, events, "the primary address goes")
	batchIP(t, `
		addr replace 198.51.100.3/24 dev wan
		addr replace 198.51.100.4/24 dev wan
		route replace default via 198.51.100.1`)
	comes(t, events, "others come back")
	lost := wantLost(t, k, "an address is gone", "[198.51.100.2]")
	before := ports(t)
	apply(t, k, state.ForgetConnections{Addresses: lost})
	if after := ports(t); before != "1001 1002 1003 1009" || after != "1001 1003 1009" {
		t.Errorf("connections to ports %s, before %s", after, before)
	}
	wantLost(t, k, "nothing is sent from it", "[]")
	send(t, "198.51.100.4:3999", "203.0.113.1:1002") // the firewall's new rules come later
	wantLost(t, k, "there is a new connection", "[198.51.100.2]")
	k.ways.gone[lost[0]] = time.Now().Add(-lostFor - time.Second)
	wantLost(t, k, "that was long ago", "[]")
}

// ports are those that conntrack has connections to.
func ports(t *testing.T) string {
	t.Helper()
	var list []string
	for port := 1001; port <= 1009; port++ {
		if strings.Contains(run(t, "conntrack -L -p udp"), fmt.Sprintf("dport=%d ", port)) {
			list = append(list, fmt.Sprint(port))
		}
	}
	return strings.Join(list, " ")
}

// send sends a UDP packet.
func send(t *testing.T, from, to string) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.MustParseAddrPort(from))}
	c, err := dialer.Dial("udp", to)
	must(t, err)
	defer c.Close()
	_, err = c.Write([]byte("hello"))
	must(t, err)
}
