// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is for what must come; calm is how long what must not come is waited for.
const (
	patience = 30 * time.Second
	calm     = 300 * time.Millisecond
)

func watch(t *testing.T, k *Kernel) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	events, err := k.Watch(ctx)
	must(t, err)
	return events
}

func comes(t *testing.T, events <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-events:
	case <-time.After(patience):
		t.Fatalf("no event: %s", what)
	}
	for quiet(events) != nil { // one change may give several messages
	}
}

// quiet gives nil if nothing comes for a while.
func quiet(events <-chan struct{}) error {
	select {
	case <-events:
		return fmt.Errorf("an event")
	case <-time.After(calm):
		return nil
	}
}

func TestWatch(t *testing.T) {
	inNamespace(t)
	load(t, fw4Ruleset)
	k := newKernel(t)
	events := watch(t, k)
	for _, c := range []struct {
		what   string
		change func()
		event  bool
	}{
		{"nothing", func() {}, false},
		{"a new link", func() { veth(t, "wan") }, true},
		{"a link goes down", func() { run(t, "ip link set wan down") }, true},
		{"a rename", func() { run(t, "ip link set wan name wan9") }, true},
		{"ethtool -K", func() { run(t, "ethtool -K wan9 gro on rx-gro-list on") }, true},
		{"a new address", func() { run(t, "ip addr add 192.0.2.1/24 dev wan9") }, true},
		{"fw4 reload", func() { load(t, fw4Ruleset) }, true},
		{"a rule in fw4", func() { load(t, "add rule inet fw4 forward_lan accept") }, true},
		{"an element of fw4's set", func() { load(t, "add element inet fw4 hosts { 192.0.2.1 }") }, false},
		{"somebody else's table", func() { load(t, "table inet other { chain c { accept; }; }") }, false},
		{"our table comes", func() { load(t, "add table inet fastpath") }, true},
		{"fw4 flush", func() { run(t, "nft flush ruleset") }, true},
		{"the link goes", func() { run(t, "ip link del wan9") }, true},
		{"a look", func() { observe(t, k) }, false},
	} {
		c.change()
		if c.event {
			comes(t, events, c.what)
		} else if err := quiet(events); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestWatchCoalesces: a storm of changes while nobody listens is one event.
func TestWatchCoalesces(t *testing.T) {
	inNamespace(t)
	events := watch(t, newKernel(t))
	for i := range 20 {
		run(t, fmt.Sprintf("ip link add b%d type bridge", i))
	}
	comes(t, events, "20 bridges")
}

// TestWatchEnds: after its context the goroutines and sockets are gone.
func TestWatchEnds(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	ctx, cancel := context.WithCancel(context.Background())
	before := runtime.NumGoroutine()
	_, err := k.Watch(ctx)
	must(t, err)
	cancel()
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, before there were %d", runtime.NumGoroutine(), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestWatchOverrun: the kernel drops messages of a socket that isn't read; the
// one that stays is the event.
func TestWatchOverrun(t *testing.T) {
	inNamespace(t)
	f, err := subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK)
	must(t, err)
	defer f.Close()
	raw, err := f.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		must(t, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
	}))
	for i := range 20 {
		run(t, fmt.Sprintf("ip link add b%d type bridge", i))
	}
	s := subscription{matters: func(unix.NlMsghdr, []byte) bool { return false }}
	events := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() { done <- s.receive(f, events) }()
	comes(t, events, "ENOBUFS")
	f.Close()
	if err := <-done; err == nil {
		t.Error("a closed socket gave no error")
	}
}

// TestWatchLostSocket: a socket that fails is opened again, and that is an event.
func TestWatchLostSocket(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	ns, err := os.Open("/proc/thread-self/ns/net")
	must(t, err)
	defer ns.Close()
	opened := 0
	s := subscriptions[0]
	s.open = func(protocol int, groups ...int) (*os.File, error) {
		opened++
		if opened == 1 {
			return nil, unix.ENOBUFS // the first try to open it again fails too
		}
		runtime.LockOSThread() // never unlocked: the goroutine's thread stays in the namespace
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return nil, err
		}
		return subscribe(protocol, groups...)
	}
	lost, err := subscribe(s.protocol, s.groups...)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events := make(chan struct{}, 1)
	lost.Close()
	go k.listen(ctx, s, lost, events)
	comes(t, events, "watching again")
	run(t, "ip link add br9 type bridge")
	comes(t, events, "a link after that")
}

// TestWatchAllocatesNothing per message.
func TestWatchAllocatesNothing(t *testing.T) {
	var w writer
	for _, name := range []string{"someone", fw4Name} {
		w.open(nftType(unix.NFT_MSG_NEWRULE), 0, 0, nfHeader(unix.NFPROTO_INET, 0)...)
		w.str(unix.NFTA_RULE_TABLE, name)
		w.str(unix.NFTA_RULE_CHAIN, "forward")
		w.close()
	}
	s := subscriptions[1]
	if !s.anyMatters(w.b) {
		t.Error("a rule of fw4's does not matter")
	}
	if n := testing.AllocsPerRun(100, func() { s.anyMatters(w.b) }); n != 0 {
		t.Errorf("%v allocations for two rules", n)
	}
	w = writer{}
	w.open(unix.RTM_NEWLINK, 0, 0, make([]byte, ifinfomsgLen)...)
	w.str(unix.IFLA_IFNAME, "wan")
	w.close()
	s = subscriptions[0]
	if !s.anyMatters(w.b) {
		t.Error("a link does not matter")
	}
	if n := testing.AllocsPerRun(100, func() { s.anyMatters(w.b) }); n != 0 {
		t.Errorf("%v allocations for a link", n)
	}
}

// TestLinkNoise is what rtnetlink says that changes nothing of ours.
func TestLinkNoise(t *testing.T) {
	bridgePort := make([]byte, ifinfomsgLen)
	bridgePort[0] = unix.AF_BRIDGE
	wireless := writer{b: make([]byte, ifinfomsgLen)}
	wireless.str(unix.IFLA_IFNAME, "wlan0")
	wireless.attr(unix.IFLA_WIRELESS, make([]byte, 8))
	for name, body := range map[string][]byte{"a bridge about its port": bridgePort, "a wireless event": wireless.b, "cut off": {0}} {
		if linkMatters(unix.NlMsghdr{Type: unix.RTM_NEWLINK}, body) {
			t.Errorf("%s matters", name)
		}
	}
}
