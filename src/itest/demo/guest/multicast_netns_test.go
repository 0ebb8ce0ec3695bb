// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
	"time"

	"fastpath/src/itest/topo"
	"fastpath/src/testkit"
)

// The channel goes through the proxy, whole and in order.
func TestChannel(t *testing.T) {
	testkit.Need(t, os.Getuid() == 0, "network namespaces need root")
	provider, router, host := testkit.NewNetns(t, "provider"), testkit.NewNetns(t, "router"), testkit.NewNetns(t, "host")
	for _, c := range []struct {
		an *testkit.Netns
		a  string
		b  string
	}{{provider, "line", "wan"}, {host, "eth0", "br-lan"}} {
		if err := testkit.Connect(c.an, c.a, router, c.b); err != nil {
			t.Fatal(err)
		}
	}
	provider.Run(t, "ip addr add "+topo.ProviderWANv4+"/24 dev line; ip route add 224.0.0.0/4 dev line")
	host.Run(t, "ip addr add "+topo.Host1v4+"/24 dev eth0; ip route add default via "+topo.RouterLANv4)
	router.Run(t, "ip addr add "+topo.RouterWANv4+"/24 dev wan; ip addr add "+topo.RouterLANv4+"/24 dev br-lan; echo 1 > /proc/sys/net/ipv4/ip_forward")
	p, err := startProxy(router, "wan", "br-lan")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	tv, err := watch(provider, host)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	seen, err := tv.stop()
	t.Logf("%v: %+v", p, seen)
	if err != nil || seen.received < tvRate/10 || seen.outOfOrder > 0 || seen.lost > 0 {
		t.Errorf("%+v, %v", seen, err)
	}
}
