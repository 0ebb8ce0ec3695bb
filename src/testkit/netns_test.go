// SPDX-License-Identifier: Apache-2.0

package testkit_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fastpath/src/testkit"
)

func TestNetns(t *testing.T) {
	var names []string
	t.Run("inside", func(t *testing.T) {
		a, b := testkit.NewNetns(t, "a"), testkit.NewNetns(t, "b")
		names = append(names, a.Name, b.Name)
		testkit.Veth(t, a, "left", b, "right")
		a.Run(t, "ip addr add 10.9.0.1/24 dev left")
		b.Run(t, "ip addr add 10.9.0.2/24 dev right")
		across(t, a, b)
		seen := false
		b.Do(t, func() { _, err := net.InterfaceByName("right"); seen = err == nil })
		if !seen {
			t.Error("Do did not run inside the namespace")
		}
		if _, err := net.InterfaceByName("right"); err == nil {
			t.Error("Do did not come back")
		}
		if out := a.Run(t, "ls /sys/class/net"); !strings.Contains(out, "left") {
			t.Error("/sys is not the namespace's:", out)
		}
	})
	for _, name := range names {
		if _, err := os.Stat(filepath.Join("/run/netns", name)); err == nil {
			t.Errorf("namespace %s was left behind", name)
		}
	}
}

// across sends a datagram from a (10.9.0.1) to b (10.9.0.2).
func across(t *testing.T, a, b *testkit.Netns) {
	t.Helper()
	var in, out net.Conn
	var err error
	addr := &net.UDPAddr{IP: net.IPv4(10, 9, 0, 2), Port: 9}
	b.Do(t, func() { in, err = net.ListenUDP("udp4", addr) })
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	a.Do(t, func() { out, err = net.DialUDP("udp4", nil, addr) })
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := out.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := in.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 16)
	if n, err := in.Read(got); err != nil || string(got[:n]) != "hello" {
		t.Errorf("across the pair came %q, %v", got[:n], err)
	}
}
