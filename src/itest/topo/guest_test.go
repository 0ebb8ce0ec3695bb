// SPDX-License-Identifier: Apache-2.0

//go:build guest

package topo_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"fastpath/src/itest/topo"
	"fastpath/src/itest/topo/traffic"
	"fastpath/src/testkit"
)

// slowPath counts what the kernel forwards by the slow path.
const slowPath = `table inet ft {
	chain slow { type filter hook forward priority -300; counter; }
}
`

// flowtable adds the kernel's own flowtable, on the lowest devices.
const flowtable = slowPath + `table inet ft {
	flowtable f { hook ingress priority 0; devices = { %s }; }
	chain fast { type filter hook forward priority 10; meta l4proto { tcp, udp } ct state established flow add @f; }
}
`

// Without a flowtable all goes by the slow path, and the counter shows it.
func TestSlowPath(t *testing.T) {
	for _, v := range []topo.Variant{topo.PPPoEVLAN, topo.DSLite} {
		t.Run(v.Name, func(t *testing.T) {
			n := build(t, v, topo.Virtio)
			load(t, n, slowPath)
			for _, c := range cases(n) {
				t.Run(c.String(), func(t *testing.T) { slow(t, n, c) })
			}
		})
	}
}

// slow fails unless all of a transfer took the slow path and, where it is IPv4
// over DS-Lite, came through the tunnel.
func slow(t *testing.T, n *topo.Net, c traffic.Transfer) {
	t.Helper()
	before := tunnelBytes(t, n)
	r, slow := measured(t, n, c)
	if slow < r.Sent {
		t.Errorf("sent %d bytes, only %d took the slow path", r.Sent, slow)
	}
	in := tunnelBytes(t, n) - before
	if want := n.Variant.DSLite && c.Addr.Is4(); want != (in >= r.Sent) {
		t.Errorf("sent %d bytes, %d by the tunnel; want them in it: %v", r.Sent, in, want)
	}
}

// tunnelBytes is what the router's tunnel has carried, both ways.
func tunnelBytes(t *testing.T, n *topo.Net) (sum int64) {
	t.Helper()
	if !n.Variant.DSLite {
		return 0
	}
	out := n.Router.Run(t, "cat /sys/class/net/"+n.Variant.Tunnel()+"/statistics/?x_bytes")
	for _, word := range strings.Fields(out) {
		b, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += b
	}
	return sum
}

// In the variants that the others are made of, both directions of TCP and UDP carry every byte, in both
// address families, and the kernel can accelerate them: the topology hides
// nothing from a flowtable. veth is tried with the least and the most above it.
func TestFlowtable(t *testing.T) {
	for _, v := range []topo.Variant{topo.Plain, topo.Bridge, topo.VLAN, topo.PPPoE, topo.PPPoEVLAN} {
		t.Run(fmt.Sprintf("%s/%s", topo.Virtio, v.Name), func(t *testing.T) { variant(t, v, topo.Virtio) })
	}
	for _, v := range []topo.Variant{topo.Plain, topo.PPPoEVLAN} {
		t.Run(fmt.Sprintf("%s/%s", topo.Veth, v.Name), func(t *testing.T) { variant(t, v, topo.Veth) })
	}
}

func variant(t *testing.T, v topo.Variant, w topo.Wires) {
	n := build(t, v, w)
	devices := "lan1, wan"
	if v.Bridge {
		devices = "lan1, lan2, wan"
	}
	load(t, n, fmt.Sprintf(flowtable, devices))
	for _, c := range cases(n) {
		t.Run(c.String(), func(t *testing.T) { accelerated(t, n, c) })
	}
	if v == topo.PPPoEVLAN {
		t.Run("redialled", func(t *testing.T) { redialled(t, n) })
	}
}

func build(t *testing.T, v topo.Variant, w topo.Wires) *topo.Net {
	t.Helper()
	n, err := topo.Build(v, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func load(t *testing.T, n *topo.Net, rules string) {
	t.Helper()
	if _, err := n.Router.Sh("nft -f - <<'END'\n" + rules + "END\n"); err != nil {
		t.Fatal(err)
	}
}

// redialled: another session, and traffic flows again, over the kernel.
func redialled(t *testing.T, n *topo.Net) {
	before := sessions(t, n)
	if err := n.Redial(); err != nil {
		t.Fatal(err)
	}
	if after := sessions(t, n); after == before {
		t.Errorf("the session is the old one:\n%s", after)
	}
	accelerated(t, n, cases(n)[0])
}

// sessions is the router's list of the sessions that the kernel carries.
func sessions(t *testing.T, n *topo.Net) string {
	t.Helper()
	out, err := n.Router.Sh("cat /proc/net/pppoe")
	if err != nil || strings.Count(out, "wan.35") != 1 {
		t.Fatalf("want one session on wan.35: %v: %s", err, out)
	}
	return out
}

func cases(n *topo.Net) (all []traffic.Transfer) {
	for _, addr := range []string{topo.Serverv4, topo.Serverv6} {
		for _, udp := range []bool{false, true} {
			for _, up := range []bool{true, false} {
				c := traffic.Transfer{Client: n.Host1, Server: n.Provider, Addr: netip.MustParseAddr(addr),
					Port: 5000, UDP: udp, Up: up, Bytes: 2_000_000}
				if n.Host2 != nil && !up {
					c.Client = n.Host2
				}
				all = append(all, c)
			}
		}
	}
	return all
}

// measured does the transfer and returns the bytes on the slow path meanwhile.
func measured(t *testing.T, n *topo.Net, c traffic.Transfer) (r traffic.Result, slow int64) {
	t.Helper()
	before := int64(0)
	c.Steady = func() error {
		before = slowBytes(t, n.Router)
		return nil
	}
	r, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slow = slowBytes(t, n.Router) - before
	t.Logf("sent %d, received %d, slow path %d bytes, gap %v, %.0f Mbit/s",
		r.Sent, r.Received, slow, r.Gap, float64(r.Received)*8/1e6/r.Elapsed.Seconds())
	return r, slow
}

// accelerated fails unless nearly all of the transfer passed the slow path by.
func accelerated(t *testing.T, n *topo.Net, c traffic.Transfer) {
	t.Helper()
	r, slow := measured(t, n, c)
	if r.Received < r.Sent*99/100 {
		t.Errorf("received %d of %d bytes", r.Received, r.Sent)
	}
	if slow > r.MostSlow() {
		t.Errorf("%d of %d bytes took the slow path", slow, r.Sent)
	}
}

var counter = regexp.MustCompile(`counter packets \d+ bytes (\d+)`)

func slowBytes(t *testing.T, router *testkit.Netns) int64 {
	t.Helper()
	out, err := router.Sh("nft list chain inet ft slow")
	m := counter.FindStringSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("no counter in chain slow: %v: %s", err, out)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
