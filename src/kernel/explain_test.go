// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

// connectionRouter makes a router between two networks, and connections.
var connectionRouter = []string{
	"ip link add lan type veth peer name lan-peer", "ip link set lan up", "ip link set lan-peer up", "ip addr add 192.0.2.254/24 dev lan",
	"ip link add wan type veth peer name wan-peer", "ip link set wan up", "ip link set wan-peer up", "ip addr add 203.0.113.9/24 dev wan",
	"ip route add 198.51.100.0/24 via 203.0.113.1", "ip -6 addr add 2001:db8::ff/64 dev lan nodad", "ip -6 route add 2001:db8:1::/48 dev wan",
	"conntrack -I -p tcp -s 192.0.2.1 -d 198.51.100.2 --sport 1000 --dport 443 --reply-src 198.51.100.2 --reply-dst 203.0.113.9 --reply-port-src 443 --reply-port-dst 1024 --state FIN_WAIT -u ASSURED,SEEN_REPLY -t 100 -m 5",
	"conntrack -I -p udp -s 2001:db8::1 -d 2001:db8:1::2 --sport 53 --dport 5353 -t 100",
	"conntrack -I -p udp -s 192.0.2.1 -d 203.0.113.9 --sport 7 --dport 8 -t 100",
}

// TestConnection asks for what the conntrack tool put in, by either tuple and
// either order, over routes that the test made.
func TestConnection(t *testing.T) {
	testkit.Need(t, has("conntrack"), "needs conntrack")
	inNamespace(t)
	must(t, os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_acct", []byte("1"), 0o644))
	for _, line := range connectionRouter {
		run(t, line)
	}
	k := newKernel(t)
	for _, c := range connectionCases {
		got, err := k.Connection(c.proto, netip.MustParseAddrPort(c.a), netip.MustParseAddrPort(c.b))
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if got.Timeout == 0 || got.Timeout > 100 {
			t.Errorf("%s: timeout %d s, of 100 set", c.what, got.Timeout)
		}
		if c.want.Status != 0 && got.Status&c.want.Status != c.want.Status {
			t.Errorf("%s: status %#x lacks %#x", c.what, got.Status, c.want.Status)
		}
		got.Timeout, got.Status, c.want.Status, got.Counted = 0, 0, 0, false
		if got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", c.what, got, c.want)
		}
	}
	_, err := k.Connection("tcp", netip.MustParseAddrPort("192.0.2.1:1000"), netip.MustParseAddrPort("198.51.100.2:444"))
	if !errors.Is(err, state.ErrNoConnection) {
		t.Errorf("none: %v, want %v", err, state.ErrNoConnection)
	}
	k.fault = func(string) error { return unix.EPERM }
	if _, err := k.Connection("tcp", netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("192.0.2.2:2")); !errors.Is(err, ErrPermission) {
		t.Errorf("not allowed: %v", err)
	}
}

var connectionCases = []struct {
	what, proto, a, b string
	want              state.Connection
}{
	{"the original tuple", "tcp", "192.0.2.1:1000", "198.51.100.2:443", fin},
	{"turned round", "tcp", "198.51.100.2:443", "192.0.2.1:1000", fin},
	{"after NAT", "tcp", "203.0.113.9:1024", "198.51.100.2:443", fin},
	{"IPv6", "udp", "[2001:db8:1::2]:5353", "[2001:db8::1]:53", state.Connection{
		Flow: state.Flow{Family: "ipv6", Proto: "udp", In: "lan", Out: "wan",
			Orig:  state.Tuple{Src: "2001:db8::1", Dst: "2001:db8:1::2", SrcPort: 53, DstPort: 5353},
			Reply: state.Tuple{Src: "2001:db8:1::2", Dst: "2001:db8::1", SrcPort: 5353, DstPort: 53}},
		InDevice: "lan", OutDevice: "wan"}},
	{"with the router itself", "udp", "192.0.2.1:7", "203.0.113.9:8", state.Connection{
		Flow: state.Flow{Family: "ipv4", Proto: "udp", In: "lan", Out: "lo",
			Orig:  state.Tuple{Src: "192.0.2.1", Dst: "203.0.113.9", SrcPort: 7, DstPort: 8},
			Reply: state.Tuple{Src: "203.0.113.9", Dst: "192.0.2.1", SrcPort: 8, DstPort: 7}},
		InDevice: "lan", OutDevice: "lo"}},
}

var fin = state.Connection{
	Flow: state.Flow{Family: "ipv4", Proto: "tcp", Mark: 5, In: "lan", Out: "wan",
		Orig:  state.Tuple{Src: "192.0.2.1", Dst: "198.51.100.2", SrcPort: 1000, DstPort: 443},
		Reply: state.Tuple{Src: "198.51.100.2", Dst: "203.0.113.9", SrcPort: 443, DstPort: 1024}},
	TCP: "FIN_WAIT", Status: state.StatusSeenReply | state.StatusAssured, InDevice: "lan", OutDevice: "wan",
}

func TestReadDetails(t *testing.T) {
	w := writer{b: nfHeader(2, 0)}
	w.nest(ctaHelp, func() { w.str(ctaHelpName, "ftp") })
	w.nest(ctaProtoInfo, func() { w.nest(ctaInfoTCP, func() { w.attr(ctaTCPState, []byte{200}) }) })
	w.be32(ctaTimeout, 77)
	if n := readDetails(w.b); n.Helper != "ftp" || n.TCP != "200" || n.Timeout != 77 {
		t.Errorf("%+v", n)
	}
	for cut := range w.b { // what a truncated message leaves is no crash
		readDetails(w.b[:cut])
	}
}

// TestVMConnection: what conntrack tells of a connection before it is in our
// flowtable, and in it.
func TestVMConnection(t *testing.T) {
	if !needVM(t) {
		return
	}
	router(t)
	run(t, "ip addr add 198.51.100.1/24 dev wan")
	run(t, "ip -n s addr add 198.51.100.2/24 dev s0")
	load(t, "table ip nat { chain post { type nat hook postrouting priority 100; oifname wan masquerade; }; }")
	k := newKernel(t)
	x := connect(t, "198.51.100.2")
	ends := func() state.Connection {
		n, err := k.Connection("tcp", netip.MustParseAddrPort("198.51.100.2:5001"), netip.MustParseAddrPort(x.client.LocalAddr().String()))
		must(t, err)
		return n
	}
	if n := ends(); n.Status&state.StatusOffload != 0 || n.TCP != "ESTABLISHED" || n.Engine != "" || n.Timeout == 0 {
		t.Errorf("before: %+v", n)
	}
	want := state.Table{Flowtable: state.Flowtable{Devices: []string{"lan", "wan"}, Counter: true}, Rules: flowRules}
	apply(t, k, state.ReplaceTable{Table: want})
	x.pass(megabyte / 8)
	n := ends()
	if n.Status&(state.StatusOffload|state.StatusSeenReply) != state.StatusOffload|state.StatusSeenReply || n.Engine != state.EngineFlowtable ||
		!n.Counted || n.Orig.Packets == 0 || n.InDevice != "lan" || n.OutDevice != "wan" || n.Reply.Dst != "198.51.100.1" {
		t.Errorf("in the flowtable: %+v", n)
	}
}
