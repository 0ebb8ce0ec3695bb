// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// in runs f with this thread in another, named network namespace.
func in(t *testing.T, name string, f func() error) {
	t.Helper()
	home, err := os.Open("/proc/thread-self/ns/net")
	must(t, err)
	defer home.Close()
	other, err := os.Open("/run/netns/" + name)
	must(t, err)
	defer other.Close()
	must(t, unix.Setns(int(other.Fd()), unix.CLONE_NEWNET))
	err = f()
	must(t, unix.Setns(int(home.Fd()), unix.CLONE_NEWNET))
	must(t, err)
}

// router makes a client c, a server s and, between them, this namespace:
// c0 - lan, 192.0.2.0/24; wan - s0.
func router(t *testing.T) {
	t.Helper()
	for _, n := range []string{"c", "s"} {
		run(t, "ip netns add "+n)
		t.Cleanup(func() { shell("ip netns del " + n) })
		run(t, "ip -n "+n+" link set lo up")
	}
	run(t, "ip link add lan type veth peer name c0 netns c")
	run(t, "ip link add wan type veth peer name s0 netns s")
	for _, line := range []string{
		"ip addr add 192.0.2.1/24 dev lan", "ip link set lan up", "ip link set wan up",
		"ip -n c addr add 192.0.2.2/24 dev c0", "ip -n c link set c0 up", "ip -n c route add default via 192.0.2.1",
		"ip -n s link set s0 up",
	} {
		run(t, line)
	}
	sysctl(t, "net/ipv4/ip_forward", "net/netfilter/nf_conntrack_acct")
}

func sysctl(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		must(t, os.WriteFile("/proc/sys/"+n, []byte("1"), 0o644))
	}
}

// transfer is a TCP connection from c to s that is written to in steps.
type transfer struct {
	t      *testing.T
	client net.Conn
	server net.Conn
}

func connect(t *testing.T, server string) *transfer {
	t.Helper()
	x := &transfer{t: t}
	var l net.Listener
	in(t, "s", func() (err error) { l, err = net.Listen("tcp", server+":5001"); return err })
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	// The socket belongs to the namespace in which it is made: no other thread may make it.
	in(t, "c", func() (err error) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), "client")
		defer f.Close()
		addr := &unix.SockaddrInet4{Port: 5001}
		copy(addr.Addr[:], net.ParseIP(server).To4())
		if err := unix.Connect(fd, addr); err != nil {
			return err
		}
		x.client, err = net.FileConn(f)
		return err
	})
	x.server = <-accepted
	t.Cleanup(func() { x.client.Close(); x.server.Close(); l.Close() })
	return x
}

// pass sends n bytes each way, one after the other.
func (x *transfer) pass(n int) {
	x.t.Helper()
	for _, way := range [][2]net.Conn{{x.client, x.server}, {x.server, x.client}} {
		for _, c := range way {
			must(x.t, c.SetDeadline(time.Now().Add(2*time.Minute)))
		}
		done := make(chan error, 1)
		go func() { _, err := way[0].Write(make([]byte, n)); done <- err }()
		_, err := io.CopyN(io.Discard, way[1], int64(n))
		must(x.t, err)
		must(x.t, <-done)
	}
}

// flowRules are what a plan installs, as far as it matters here.
var flowRules = []state.Rule{
	state.Return.When(state.IsNot(state.KeyL4Proto, "tcp", "udp")),
	state.Return.When(state.IsNot(state.KeyCtState, "established")),
	state.Count.When(), state.Add.When(),
}

// slow gives the bytes that took the slow path while f ran. f leaves our rules
// alone: the counter begins again when they are replaced.
func slow(t *testing.T, k *Kernel, f func()) uint64 {
	t.Helper()
	before, err := k.Counters()
	must(t, err)
	f()
	after, err := k.Counters()
	must(t, err)
	return after.SlowBytes - before.SlowBytes
}

const megabyte = 1 << 20

// TestVMFlows: an accelerated connection is listed with its ports and counts,
// its bytes don't reach the slow path, and devices may come and go meanwhile.
func TestVMFlows(t *testing.T) {
	if !needVM(t) {
		return
	}
	router(t)
	veth(t, "opt")
	run(t, "ip addr add 198.51.100.1/24 dev wan")
	run(t, "ip -n s addr add 198.51.100.2/24 dev s0")
	load(t, "table ip nat { chain post { type nat hook postrouting priority 100; oifname wan masquerade; }; }")
	k := newKernel(t)
	want := state.Table{Flowtable: state.Flowtable{Devices: []string{"lan", "wan"}, Counter: true}, Rules: flowRules}
	apply(t, k, state.ReplaceTable{Table: want})
	x := connect(t, "198.51.100.2")
	x.pass(megabyte / 8)
	steady := func(what string, f func()) {
		f()
		if bytes := slow(t, k, func() { x.pass(megabyte) }); bytes > megabyte/10 {
			t.Errorf("%s: %d bytes of 2 MB took the slow path", what, bytes)
		}
	}
	steady("nothing changes", func() {})
	steady("a device is added", func() {
		apply(t, k, state.AddDevices{Flowtable: want.Flowtable, Devices: []string{"opt"}})
	})
	steady("it is removed again", func() {
		apply(t, k, state.RemoveDevices{Flowtable: want.Flowtable, Devices: []string{"opt"}})
	})
	steady("the rules are replaced", func() { apply(t, k, state.ReplaceRules{Table: want}) })
	steady("a look with a trial", func() { k.trial = trial{}; observe(t, k) })
	f := oneFlow(t, k)
	if f.In != "lan" || f.Out != "wan" || f.Encap != "" || !f.Counted || f.Proto != "tcp" || f.Family != "ipv4" ||
		f.Orig.Src != "192.0.2.2" || f.Reply.Dst != "198.51.100.1" || f.Orig.DstPort != 5001 ||
		f.Orig.Bytes < 5*megabyte || f.Reply.Bytes < 5*megabyte {
		t.Errorf("flow %+v", f)
	}
	// Replaced as a whole, every flow has to be learnt again, and is.
	apply(t, k, state.ReplaceTable{Table: want})
	if bytes := slow(t, k, func() { x.pass(megabyte) }); bytes == 0 {
		t.Error("a new flowtable had the flow already")
	}
	apply(t, k, state.DeleteTable{})
	x.pass(megabyte / 8)
}

func oneFlow(t *testing.T, k *Kernel) state.Flow {
	t.Helper()
	flows, err := k.Flows()
	must(t, err)
	if len(flows) != 1 {
		t.Fatalf("%d flows: %+v", len(flows), flows)
	}
	return flows[0]
}

// TestVMFlowsPPPoE: the stacking of a PPPoE line on a VLAN is observed, its
// flows are accelerated both ways with the lowest devices only, and told with
// their encapsulation.
func TestVMFlowsPPPoE(t *testing.T) {
	if !needVM(t) {
		return
	}
	router(t)
	run(t, "ip link add link wan name wan.35 type vlan id 35")
	run(t, "ip link set wan.35 up")
	run(t, "ip -n s link add link s0 name s0.35 type vlan id 35")
	run(t, "ip -n s link set s0.35 up")
	dialPPPoE(t)
	load(t, "table ip nat { chain post { type nat hook postrouting priority 100; oifname pppoe-wan masquerade; }; }")
	k := newKernel(t)
	o := observe(t, k)
	ppp, vlan, wan := link(t, o, "pppoe-wan"), link(t, o, "wan.35"), link(t, o, "wan")
	if ppp.Kind != "ppp" || vlan.Kind != "vlan" || vlan.VLAN != 35 || vlan.QinQ || vlan.Lower != wan.Index {
		t.Errorf("ppp %+v, vlan %+v", ppp, vlan)
	}
	if len(o.Sessions) != 1 || o.Sessions[0].ID != 256 || o.Sessions[0].Device != "wan.35" {
		t.Errorf("sessions %+v", o.Sessions)
	}
	want := state.Table{Flowtable: state.Flowtable{Devices: []string{"lan", "wan"}, Counter: true}, Rules: flowRules}
	apply(t, k, state.ReplaceTable{Table: want})
	x := connect(t, "203.0.113.1")
	x.pass(megabyte / 8)
	if bytes := slow(t, k, func() { x.pass(megabyte) }); bytes > megabyte/10 {
		t.Errorf("%d bytes of 2 MB took the slow path", bytes)
	}
	if f := oneFlow(t, k); f.In != "lan" || f.Out != "wan" || f.Encap != "pppoe session 256 over vlan 35" {
		t.Errorf("flow %+v", f)
	}
}

// dialPPPoE makes both ends of session 256 in the kernel, without discovery.
func dialPPPoE(t *testing.T) {
	t.Helper()
	mac := func(prefix, device string) string {
		out := run(t, "ip "+prefix+" -br link show dev "+device)
		return strings.Fields(out)[2]
	}
	common := "noauth noccp novj nodefaultroute mtu 1492 mru 1492 nodetach ip-up-script /bin/true"
	pppd := func(where, device, peer, rest string) {
		line := fmt.Sprintf("%s plugin rp-pppoe.so nic-%s pppoe-sess 256:%s %s %s", where, device, peer, common, rest)
		field := strings.Fields(line)
		cmd := exec.Command(field[0], field[1:]...)
		out, err := os.CreateTemp(t.TempDir(), "pppd")
		must(t, err)
		cmd.Stdout, cmd.Stderr = out, out
		must(t, cmd.Start())
		t.Cleanup(func() {
			cmd.Process.Signal(unix.SIGTERM)
			cmd.Wait()
			if t.Failed() {
				said, _ := os.ReadFile(out.Name())
				t.Logf("%s\n%s", line, said)
			}
		})
	}
	pppd("ip netns exec s pppd", "s0.35", mac("", "wan.35"), "203.0.113.1:203.0.113.2")
	pppd("pppd", "wan.35", mac("-n s", "s0.35"), "ifname pppoe-wan")
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if out, err := shell("ip -4 -br addr show dev pppoe-wan"); err == nil && strings.Contains(out, "203.0.113.2") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("pppd does not come up")
		}
		time.Sleep(200 * time.Millisecond)
	}
	run(t, "ip route add default dev pppoe-wan")
}
