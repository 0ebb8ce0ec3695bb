// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"os"
	"os/exec"
	"testing"
)

// NeedNetns skips the test unless it may make namespaces.
func NeedNetns(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath("ip")
	Need(t, os.Getuid() == 0 && err == nil, "network namespaces need root and iproute2")
}

// NewNetns is MakeNetns for a test; the namespace is deleted when the test ends,
// also when it failed.
func NewNetns(t testing.TB, label string) *Netns {
	t.Helper()
	NeedNetns(t)
	n, err := MakeNetns(label)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Delete(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// Run is Sh that must succeed.
func (n *Netns) Run(t testing.TB, script string) string {
	t.Helper()
	out, err := n.Sh(script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Do is Inside that must succeed; f may call t.Fatal.
func (n *Netns) Do(t testing.TB, f func()) {
	t.Helper()
	if err := n.Inside(func() error { f(); return nil }); err != nil {
		t.Fatal(err)
	}
}

// Veth is Connect that must succeed.
func Veth(t testing.TB, an *Netns, a string, bn *Netns, b string) {
	t.Helper()
	if err := Connect(an, a, bn, b); err != nil {
		t.Fatal(err)
	}
}
