// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/itest/topo"
)

// A port that goes and comes is taken out and put in without the others' flows
// leaving the fast path or losing a packet.
func TestPortGoesAndComes(t *testing.T) {
	r := build(t, topo.PPPoEVLAN)
	r.start(t)
	r.want(t, "lan1", "lan2", "wan")
	c := r.transfer(topo.Serverv4, true, true, 40_000_000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3 {
			r.Router.Run(t, "ip link set lan2 nomaster")
			r.want(t, "lan1", "wan")
			r.Router.Run(t, "ip link set lan2 master br-lan")
			r.want(t, "lan1", "lan2", "wan")
		}
	}()
	r.accelerated(t, c)
	<-done
	if n := strings.Count(r.log.String(), "install table inet fastpath"); n != 1 {
		t.Errorf("the table was installed %d times, want once:\n%s", n, r.log.String())
	}
}

// A device that comes after the start joins.
func TestLateDevice(t *testing.T) {
	r := build(t, topo.Bridge)
	r.Router.Run(t, "ip link set lan2 nomaster")
	r.renamed(t, "lan2", "other")
	r.start(t)
	r.want(t, "lan1", "wan")
	r.renamed(t, "other", "lan2")
	r.Router.Run(t, "ip link set lan2 master br-lan")
	t.Logf("joined after %v", r.want(t, "lan1", "lan2", "wan"))
	c := r.transfer(topo.Serverv4, false, true, 2_000_000)
	c.Client = r.Host2
	r.accelerated(t, c)
	// 6.12 follows a renamed device, 7.3 keeps the old name: both must end in the list of what is.
	r.renamed(t, "lan2", "lan9")
	r.want(t, "lan1", "lan9", "wan")
	r.accelerated(t, c)
	r.renamed(t, "lan9", "lan2") // as the topology wants it back
	r.want(t, "lan1", "lan2", "wan")
}

// `fw4 flush` deletes every table; the daemon says so, leaves the router alone,
// and comes back with the firewall. A reload of the rules learns all flows anew.
func TestFirewallFlushAndReload(t *testing.T) {
	r := build(t, topo.Bridge)
	r.start(t)
	r.want(t, lowest(topo.Bridge)...)
	r.Router.Run(t, "nft flush ruleset")
	took := r.eventually(t, "the firewall's end is noticed", func() bool { return r.status(t).Report.Hook == "off" })
	t.Logf("noticed after %v", took)
	if reason := r.status(t).Report.HookReason; !strings.Contains(reason, "firewall") {
		t.Errorf("reason %q does not name the firewall", reason)
	}
	r.firewall(t)
	t.Logf("back after %v", r.want(t, lowest(topo.Bridge)...))
	r.settled(t)
	r.log.Reset()
	r.firewall(t)
	r.eventually(t, "a reload of the rules learns the flows anew", func() bool {
		return strings.Contains(r.log.String(), "install table inet fastpath")
	})
	r.Router.Run(t, "nft '"+slowTable+"'")
	r.accelerated(t, r.transfer(topo.Serverv4, false, false, 2_000_000))
}

// firewall loads the rules as fw4 does at a start or a reload.
func (r *router) firewall(t *testing.T) {
	t.Helper()
	rules, err := r.Variant.Ruleset()
	if err != nil {
		t.Fatal(err)
	}
	r.Router.Run(t, "nft -f - <<'X'\n"+rules+"\nX\n")
}

// The router after cleanup is the router before: ruleset and features, after an
// orderly end and after kill -9.
func TestCleanup(t *testing.T) {
	r := build(t, topo.PPPoEVLAN)
	before := r.settings(t)
	r.start(t)
	r.want(t, lowest(topo.PPPoEVLAN)...)
	if early() && r.settings(t) == before {
		t.Error("nothing differs while early_ingress is in use: this test would prove nothing")
	}
	r.stop(t, syscall.SIGTERM)
	if after := r.settings(t); after != before {
		t.Errorf("after SIGTERM:\n%s\nbefore:\n%s", after, before)
	}
	r.start(t)
	r.want(t, lowest(topo.PPPoEVLAN)...)
	r.stop(t, syscall.SIGKILL)
	for range 2 { // the second time there is nothing to do
		if out, err := r.command("cleanup").CombinedOutput(); err != nil {
			t.Fatalf("cleanup: %v: %s", err, out)
		}
		if after := r.settings(t); after != before {
			t.Errorf("after kill -9 and cleanup:\n%s\nbefore:\n%s", after, before)
		}
	}
}

// settings are the ruleset and the features of the router's ports.
func (r *router) settings(t *testing.T) string {
	t.Helper()
	return r.Router.Run(t, `nft --stateless list ruleset
		for d in lan1 wan `+r.Variant.LAN()+`; do ethtool -k $d; done`)
}

// After kill -9 the flowtable goes on alone; the next start finds it and does
// not take it down.
func TestCrash(t *testing.T) {
	r := build(t, topo.Bridge)
	before := r.settings(t)
	r.start(t)
	r.want(t, lowest(topo.Bridge)...)
	r.stop(t, syscall.SIGKILL)
	r.accelerated(t, r.transfer(topo.Serverv4, false, true, 2_000_000))
	r.start(t)
	if strings.Contains(r.log.String(), "install table inet fastpath") {
		t.Errorf("the flowtable was replaced:\n%s", r.log.String())
	}
	r.settled(t)
	r.accelerated(t, r.transfer(topo.Serverv4, true, false, 2_000_000))
	r.stop(t, syscall.SIGTERM)
	if after := r.settings(t); after != before {
		t.Errorf("after the end:\n%s\nbefore:\n%s", after, before)
	}
}

// fw4's own offload is the user's word: ours goes away and status says what to do.
func TestFW4Offload(t *testing.T) {
	r := build(t, topo.Bridge)
	r.start(t)
	r.want(t, lowest(topo.Bridge)...)
	r.rewrite(t, "firewall", "option syn_flood '1'", "option syn_flood '1'\n\toption flow_offloading '1'")
	r.reload(t)
	r.want(t)
	notices := strings.Join(r.status(t).Report.Notices, "\n")
	if !strings.Contains(notices, "flow_offloading is on") || !strings.Contains(notices, "'0'") {
		t.Errorf("no notice says how to switch fw4's off:\n%s", notices)
	}
	r.rewrite(t, "firewall", "flow_offloading '1'", "flow_offloading '0'")
	r.reload(t)
	r.want(t, lowest(topo.Bridge)...)
}

// A redialled PPPoE line, with another session id, is accelerated again.
func TestRedial(t *testing.T) {
	r := build(t, topo.PPPoEVLAN)
	r.start(t)
	r.want(t, lowest(topo.PPPoEVLAN)...)
	r.accelerated(t, r.transfer(topo.Serverv4, false, false, 2_000_000))
	if err := r.Redial(); err != nil {
		t.Fatal(err)
	}
	r.want(t, lowest(topo.PPPoEVLAN)...)
	r.settled(t)
	r.accelerated(t, r.transfer(topo.Serverv4, false, true, 2_000_000))
	r.accelerated(t, r.transfer(topo.Serverv6, true, false, 2_000_000))
}

// The behaviour check: while early_ingress isn't confirmed our chains count at
// netdev ingress; traffic confirms it and they go away.
func TestEarlyIsConfirmed(t *testing.T) {
	if !early() {
		t.Log("this kernel has no early_ingress: see TestDeviceSets for its reason")
		return
	}
	r := build(t, topo.Bridge)
	r.start(t)
	r.want(t, lowest(topo.Bridge)...)
	if !r.counting() {
		t.Error("no chains count at netdev ingress before anything is confirmed")
	}
	r.accelerated(t, r.transfer(topo.Serverv4, true, true, 4_000_000))
	r.status(t) // takes a sample, which sees the flow; the next ones come by themselves
	stop := time.Now().Add(patience)
	for r.counting() && time.Now().Before(stop) {
		r.accelerated(t, r.transfer(topo.Serverv4, true, true, 4_000_000))
	}
	if r.counting() {
		t.Fatalf("not confirmed: %+v", r.status(t).Report)
	}
	r.settled(t)
}

func (r *router) counting() bool {
	return r.Router.Command("nft", "list", "table", "netdev", "fastpath").Run() == nil
}

// A number that is another hook's name, or nobody's, is refused by the kernel
// and the reason names the errno.
func TestWrongHookNumber(t *testing.T) {
	r := build(t, topo.Plain)
	r.rewrite(t, "fastpath", "option enabled '1'", "option enabled '1'\n\toption hook_number '7'")
	r.start(t)
	r.want(t, lowest(topo.Plain)...)
	s := r.status(t).Report
	if s.Hook != "ingress" || s.HookReason == "" {
		t.Errorf("hook %q, reason %q", s.Hook, s.HookReason)
	}
	if !slices.ContainsFunc([]string{"errno", "not support", "95"}, func(w string) bool { return strings.Contains(s.HookReason, w) }) {
		t.Errorf("the reason doesn't tell what the kernel answered: %q", s.HookReason)
	}
}
