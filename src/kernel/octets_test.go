// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strings"
	"testing"

	"fastpath/src/testkit"
)

func TestReadInOctets(t *testing.T) {
	const netstat = "TcpExt: SyncookiesSent InOctets\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 3 18446744073709551615 5\n"
	for text, want := range map[string]uint64{netstat: 1<<64 - 1, "": 0, "IpExt: InOctets\n": 0, "IpExt: A B InOctets\nIpExt: 1 2\n": 0} {
		if got := readInOctets(strings.NewReader(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]uint64{"Ip6InReceives 1\nIp6InOctets                     \t77\n": 77, "": 0, "Ip6InOctets x\n": 0} {
		if got := readInOctets6(strings.NewReader(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// What comes to the router itself is counted, over IPv4 and IPv6; what stays
// inside it, on the loopback, isn't.
func TestStackBytes(t *testing.T) {
	testkit.Need(t, has("busybox"), "needs busybox")
	inNamespace(t)
	run(t, "ip link add lan type veth peer name wan")
	run(t, "ip link set lo up")
	k := newKernel(t)
	count := func() uint64 {
		c, err := k.Counters()
		must(t, err)
		return c.StackBytes
	}
	ping := func(address string) (grown uint64) {
		before := count()
		run(t, "busybox ping -c 20 -i 0.01 -s 1000 -q "+address)
		return count() - before
	}
	run(t, "ip addr add 192.0.2.1/24 dev lan")
	run(t, "ip -6 addr add 2001:db8::1/64 dev lan nodad")
	if n := ping("192.0.2.1") + ping("2001:db8::1"); n > 5000 {
		t.Errorf("%d bytes over the loopback are counted", n)
	}
	peer := testkit.NewNetns(t, "peer")
	run(t, "ip link set wan netns "+peer.Name)
	run(t, "ip link set lan up")
	peer.Run(t, "ip link set wan up; ip addr add 192.0.2.2/24 dev wan; ip -6 addr add 2001:db8::2/64 dev wan nodad")
	for _, address := range []string{"192.0.2.2", "2001:db8::2"} {
		if n := ping(address); n < 20*1000 || n > 40*1000 {
			t.Errorf("%s: %d bytes in 20 answers of about 1030", address, n)
		}
	}
}
