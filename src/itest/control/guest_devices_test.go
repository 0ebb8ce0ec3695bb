// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"slices"
	"strings"
	"testing"

	"fastpath/src/itest/topo"
	"fastpath/src/testkit"
)

// lowest are the devices that a variant's flowtable has to list, sorted: the only
// set that takes both directions on every kernel.
func lowest(v topo.Variant) []string {
	devices := []string{"lan1"}
	if v.Bridge {
		devices = append(devices, "lan2")
	}
	if v.Container {
		devices = append(devices, "vethd0")
	}
	devices = append(devices, "wan")
	if v.SecondWAN {
		devices = append(devices, "wan2")
	}
	return devices
}

// Each stacking is accelerated in both directions, in both families, for TCP
// and UDP, and once it is installed there is nothing left to do.
func TestDeviceSets(t *testing.T) {
	for _, v := range topo.Variants {
		t.Run(v.Name, func(t *testing.T) {
			r := build(t, v)
			before := r.private(t)
			r.start(t)
			r.want(t, lowest(v)...)
			r.wantHook(t)
			r.settled(t)
			switch {
			case v.Container:
				r.ways(t, r.Guest)
			case v.Filtering:
				r.ways(t, r.Host1)
				r.ways(t, r.Host2)
			case v.SecondWAN:
				r.ways(t, r.Host1)
				r.Router.Run(t, "ip route del default dev wan; ip -6 route del default dev wan")
				r.ways(t, r.Host1)
			default:
				r.ways(t, r.Host1)
			}
			r.settled(t)
			if after := r.private(t); after != before {
				t.Errorf("the bridge that no zone knows was:\n%s\nand is:\n%s", before, after)
			}
		})
	}
}

// ways are both directions of both families, by TCP in one and UDP in the other.
func (r *router) ways(t *testing.T, client *testkit.Netns) {
	t.Helper()
	for _, addr := range []string{topo.Serverv4, topo.Serverv6} {
		for _, up := range []bool{true, false} {
			c := r.transfer(addr, up == (addr == topo.Serverv4), up, 2_000_000)
			c.Client = client
			r.accelerated(t, c)
		}
	}
}

// private is what Container's private bridge looks like and that it carries frames;
// "" without.
func (r *router) private(t *testing.T) string {
	t.Helper()
	if !r.Variant.Container {
		return ""
	}
	r.Guest.Run(t, "ping -q -c 3 -i 0.2 -w 20 "+topo.Privatev4)
	return r.Router.Run(t, "for d in virbr0 vethv0 vethv1; do ip -o link show dev $d; ethtool -k $d; done")
}

// wantHook checks that the hook is the earliest that this kernel and the ports have,
// with a reason.
func (r *router) wantHook(t *testing.T) {
	t.Helper()
	s := r.status(t).Report
	want := "ingress"
	if early() && !r.Variant.Container {
		want = "early_ingress"
	}
	if s.Hook != want || s.HookReason == "" {
		t.Errorf("hook %q, reason %q; want %s with a reason", s.Hook, s.HookReason, want)
	}
	if early() && r.Variant.Container && !strings.Contains(s.HookReason, "vethd0") {
		t.Errorf("the reason doesn't name the container's port: %q", s.HookReason)
	}
}

// What a flowtable can't carry both ways stays on the slow path, wholly and with
// its reason, and what can is accelerated beside it.
func TestTunnels(t *testing.T) {
	for _, c := range []struct {
		variant topo.Variant
		device  string // whose flows
		addr    string
		early   string // the reason with the early kernel (7.3, with IPv4 over IPv6); "": it is accelerated
		others  string // and with those before 7.2, which take no tunnel; "": not run, since it is that of the others
	}{
		{topo.IPIP, "ipip-tunnel", topo.Serverv4, "", "from 7.2 on"},
		{topo.SixInSix, "tunnel", topo.Serverv6, "", "from 7.2 on"},
		{topo.DSLite, "ds-dslite", topo.Serverv4, "", "no released kernel"},
		{topo.IPIPPPPoE, "ipip-tunnel", topo.Serverv4, "PPPoE", ""},
		{topo.PPPoEQinQ, "wan", topo.Serverv4, "more than 2 encapsulations", "more than 2 encapsulations"},
	} {
		if c.others == "" && !early() {
			continue
		}
		t.Run(c.variant.Name, func(t *testing.T) {
			r := build(t, c.variant)
			r.start(t)
			r.eventually(t, "a plan", func() bool { return r.status(t).Report.HookReason != "" })
			r.settled(t)
			reason := c.others
			if early() {
				reason = c.early
			}
			r.carried(t, c.device, c.addr, reason)
			if out, err := r.command("flows").CombinedOutput(); err != nil || reason == "" && !strings.Contains(string(out), " tunnel") {
				t.Errorf("no flow is shown in a tunnel: %v: %s", err, out)
			}
			if c.variant.Mode == "ip6ip6" && early() {
				r.Router.Run(t, "ip link set dev tunnel type ip6tnl encaplimit 4")
				r.carried(t, c.device, c.addr, "encaplimit 'ignore'")
			}
			r.settled(t)
		})
	}
}

// carried sends both ways and wants it accelerated, or slow if there is a reason.
func (r *router) carried(t *testing.T, device, addr, reason string) {
	t.Helper()
	send := r.accelerated
	if reason != "" {
		send = r.slow
		r.eventually(t, "the reason for "+device+": "+reason, func() bool {
			return slices.ContainsFunc(r.portStatus(t), func(p portStatus) bool { return p.Name == device && strings.Contains(p.HookReason, reason) })
		})
	}
	send(t, r.transfer(addr, true, true, 2_000_000))
	send(t, r.transfer(addr, false, false, 2_000_000))
}

// slow runs a transfer and fails unless all of it arrived by the slow path.
func (r *router) slow(t *testing.T, c transfer) {
	t.Helper()
	var before int64
	c.Steady = func() error {
		before = r.slowBytes(t)
		return nil
	}
	result, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slow := r.slowBytes(t) - before
	t.Logf("%s: sent %d, received %d, slow path %d bytes, gap %v", c, result.Sent, result.Received, slow, result.Gap)
	if result.Received < result.Sent*99/100 || slow < result.Sent {
		t.Errorf("%s: sent %d, received %d, %d by the slow path", c, result.Sent, result.Received, slow)
	}
}
