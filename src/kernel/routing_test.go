// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// lines prints each of a list.
func lines[T any](list []T) string {
	var b strings.Builder
	for _, x := range list {
		fmt.Fprintf(&b, "%v\n", x)
	}
	return b.String()
}

func sameLines(t *testing.T, what, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(strings.ReplaceAll(want, "\t", "")) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

// batchIP runs ip's commands.
func batchIP(t testing.TB, commands string) {
	t.Helper()
	for line := range strings.Lines(commands) {
		if line = strings.TrimSpace(line); line != "" {
			run(t, "ip "+line)
		}
	}
}

// feedIP is batchIP for many.
func feedIP(t testing.TB, commands string) {
	t.Helper()
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(commands)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ip -batch: %v\n%.300s", err, out)
	}
}

func TestRouting(t *testing.T) {
	inNamespace(t)
	veth(t, "wan", "wanb", "lan")
	batchIP(t, `
		link set wan up
		link set wanb up
		link set lan up
		addr add 198.51.100.2/24 dev wan
		addr add 203.0.113.2/24 dev wanb
		addr add 192.168.1.1/24 dev lan
		addr add 2001:db8:1::1/64 dev lan nodad
		route add default via 198.51.100.1 metric 10
		route add default table 100 nexthop via 203.0.113.1 dev wanb nexthop via 203.0.113.9 dev wanb
		route add 10.0.0.0/8 via 192.168.1.7
		-6 route add default from 2001:db8:1::/64 via fe80::1 dev wan metric 512`)
	k := newKernel(t)
	o := observe(t, k)
	sameLines(t, "defaults", lines(o.Routing.Defaults), `
		default from 0.0.0.0/0 via 198.51.100.1 dev wan table 254 metric 10
		default from 0.0.0.0/0 via 203.0.113.1 dev wanb table 100 metric 0
		default from 0.0.0.0/0 via 203.0.113.9 dev wanb table 100 metric 0
		default from 2001:db8:1::/64 via fe80::1 dev wan table 254 metric 512`)
	sameLines(t, "addresses", lines(o.Routing.Addresses), `
		127.0.0.1/8 dev lo
		192.168.1.1/24 dev lan
		198.51.100.2/24 dev wan
		2001:db8:1::1/64 dev lan
		203.0.113.2/24 dev wanb
		::1/128 dev lo`)
	if len(o.Routing.Rules)+len(o.Routing.Astray) > 0 {
		t.Errorf("rules %v, astray %v of a router without any", o.Routing.Rules, o.Routing.Astray)
	}
}

func TestRoutingRules(t *testing.T) {
	inNamespace(t)
	batchIP(t, `
		rule add pref 1000 fwmark 0x100/0x3f00 lookup 1
		rule add pref 1001 iif wan lookup 2
		rule add pref 1002 from 192.168.1.0/24 to 10.0.0.0/8 lookup 3
		rule add pref 1003 tos 0x10 lookup 4
		rule add pref 1004 ipproto tcp dport 443 lookup 5
		rule add pref 1005 lookup main suppress_prefixlength 0
		rule add pref 1006 not fwmark 0xca6c lookup 6
		rule add pref 1007 not iif wan lookup 7
		rule add pref 1008 oif wan lookup 8
		rule add pref 1009 fwmark 0x200/0x3f00 unreachable
		rule add pref 40000 fwmark 0x1 lookup 9
		-6 rule add pref 1000 iif lo lookup 1`)
	got := observe(t, newKernel(t)).Routing.Rules
	want := []state.RoutingRule{
		{Text: "1000: fwmark 0x100/0x3f00 lookup 1", Mask: 0x3f00},
		{Text: "1001: iif wan lookup 2", Iif: "wan"},
		{Text: "1002: to 10.0.0.0/8 from 192.168.1.0/24 lookup 3"},
		{Text: "1003: tos 0x10 lookup 4", Strange: "tos 0x10"},
		{Text: "1004: dport ipproto lookup 5", Strange: "dport, ipproto"},
		{Text: "1005: suppress 0 lookup 254"},
		{Text: "1006: not fwmark 0xca6c/0xffffffff lookup 6", Mask: 0xffffffff},
		{Text: "1007: not iif wan not iif lookup 7", Iif: "wan", Strange: "not iif"},
		{Text: "1008: oif wan lookup 8", Oif: "wan"},
		{Text: "1009: fwmark 0x200/0x3f00 action 7", Mask: 0x3f00},
		{Text: "1000: iif lo lookup 1", Iif: "lo"},
	}
	sameLines(t, "rules", lines(got), lines(want))
}

// TestRoutingAstray: mwan3's rules for the device that answers come in by lead
// them to a table that has the LAN, or hasn't.
func TestRoutingAstray(t *testing.T) {
	inNamespace(t)
	veth(t, "wan", "wanb", "lan")
	batchIP(t, `
		link set wan up
		link set wanb up
		link set lan up
		addr add 198.51.100.2/24 dev wan
		addr add 203.0.113.2/24 dev wanb
		addr add 192.168.1.1/24 dev lan
		route add default via 198.51.100.1 metric 10
		route add default via 203.0.113.1 metric 20
		route add default via 203.0.113.1 table 2
		rule add pref 1001 iif wan lookup 1
		rule add pref 1002 iif wanb lookup 2`)
	run(t, "sysctl -qw net.ipv4.ip_forward=1")
	k := newKernel(t)
	sameLines(t, "astray", lines(observe(t, k).Routing.Astray), "192.168.1.0/24 would leave by wanb (ip rule 1002: iif wanb lookup 2)")
	run(t, "ip link set lan down") // and keeps its address
	if got := observe(t, k).Routing.Astray; got != nil {
		t.Errorf("astray: %v, though nobody is behind a device that is down", got)
	}
	run(t, "ip link set lan up")
	run(t, "ip route add 192.168.1.0/24 dev lan table 2")
	if got := observe(t, k).Routing.Astray; got != nil {
		t.Errorf("astray: %v, though table 2 has the LAN", got)
	}
}

// TestRoutingBounded: the tables of a router in the middle of the Internet are
// not read to their end.
func TestRoutingBounded(t *testing.T) {
	inNamespace(t)
	veth(t, "wan", "wanb", "lan")
	batchIP(t, `
		link set wan up
		addr add 198.51.100.2/24 dev wan
		route add default via 198.51.100.1`)
	var b strings.Builder
	for i := range 3 * routesMost / 2 {
		fmt.Fprintf(&b, "route add 10.%d.%d.%d/32 dev wan\n", i>>16, i>>8&0xff, i&0xff)
	}
	feedIP(t, b.String())
	k := newKernel(t)
	begin := time.Now()
	r, err := k.routing(nil)
	must(t, err)
	t.Logf("%d routes: read in %v", 3*routesMost/2, time.Since(begin))
	if len(r.Defaults) != 1 {
		t.Errorf("default routes: %v", r.Defaults)
	}
}

// TestWatchRouting: only what is new wakes anybody, and router advertisements
// repeat everything.
func TestWatchRouting(t *testing.T) {
	inNamespace(t)
	veth(t, "wan", "wanb", "lan")
	batchIP(t, `
		link set wan up`)
	k := newKernel(t)
	events := watch(t, k)
	for _, c := range []struct {
		what, ip string
		event    bool
	}{
		{"an address", "addr add 2001:db8:2::2/64 dev wan nodad valid_lft 600 preferred_lft 600", true},
		{"its life is prolonged", "addr change 2001:db8:2::2/64 dev wan nodad valid_lft 700 preferred_lft 700", false},
		{"a link-local address", "addr add fe80::77/64 dev wan nodad", false},
		{"a default route", "-6 route add default via fe80::1 dev wan metric 512", true},
		{"the same again", "-6 route replace default via fe80::1 dev wan metric 512", false},
		{"another gateway", "-6 route replace default via fe80::2 dev wan metric 512", true},
		{"the first one again", "-6 route replace default via fe80::1 dev wan metric 512", true},
		{"another route", "-6 route add 2001:db8:9::/64 via fe80::1 dev wan", false},
		{"a rule", "rule add pref 77 fwmark 1 lookup 77", true},
		{"a rule goes", "rule del pref 77", true},
		{"the default route goes", "-6 route del default via fe80::1 dev wan metric 512", true},
		{"and comes back", "-6 route add default via fe80::1 dev wan metric 512", true},
		{"the address goes", "addr del 2001:db8:2::2/64 dev wan", true}, // and for a while is looked for
	} {
		run(t, "ip "+c.ip)
		if c.event {
			comes(t, events, c.what)
		} else if err := quiet(events); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestRoutingChangesAreBounded: nothing grows for ever.
func TestRoutingChangesAreBounded(t *testing.T) {
	c := newRoutingChanges(func() {})
	body := slices.Concat([]byte{unix.AF_INET, 32, 0, 0, 1, 0, 0, 0}, []byte{8, 0, 2, 0}, make([]byte, 4))
	for i := range 3 * mostRemembered {
		body[13], body[14], body[15] = byte(i>>16), byte(i>>8), byte(i)
		if !c.matters(unix.NlMsghdr{Type: unix.RTM_NEWADDR}, body) {
			t.Fatalf("address %d is no event", i)
		}
		c.matters(unix.NlMsghdr{Type: unix.RTM_DELADDR}, body)
		c.matters(unix.NlMsghdr{Type: unix.RTM_NEWADDR}, body)
	}
	if len(c.known) > mostRemembered || len(c.gone) > mostRemembered {
		t.Errorf("%d known, %d gone", len(c.known), len(c.gone))
	}
}
