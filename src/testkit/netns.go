// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Netns is a network namespace. It has a name under /run/netns, so that `ip
// netns exec NAME` works while a test is being looked into.
type Netns struct{ Name string }

var netnsCount atomic.Int32

// MakeNetns makes a namespace whose loopback is up. Its name is unique and
// carries our pid. Tests use NewNetns, which also deletes it.
func MakeNetns(label string) (*Netns, error) {
	n := &Netns{Name: fmt.Sprintf("fp-%d-%d-%s", os.Getpid(), netnsCount.Add(1), label)}
	if _, err := command("ip", "netns", "add", n.Name); err != nil {
		return nil, err
	}
	if _, err := n.Sh("ip link set lo up"); err != nil {
		return nil, errors.Join(err, n.Delete())
	}
	return n, nil
}

// Delete deletes the namespace, and with it the devices in it.
func (n *Netns) Delete() error {
	_, err := command("ip", "netns", "del", n.Name)
	return err
}

// Enter locks the goroutine to its thread and moves that into the namespace,
// for good: the thread ends with the goroutine. Sockets opened from here on
// are inside, new goroutines are not.
func (n *Netns) Enter() error {
	runtime.LockOSThread()
	ns, err := os.Open(filepath.Join("/run/netns", n.Name))
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", n.Name, err)
	}
	return nil
}

// Inside runs f inside the namespace and comes back. What holds for Enter holds for f.
func (n *Netns) Inside(f func() error) (err error) {
	runtime.LockOSThread()
	back, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer back.Close()
	defer func() {
		if e := unix.Setns(int(back.Fd()), unix.CLONE_NEWNET); e != nil {
			// Still locked: the thread ends with the goroutine, nobody gets it.
			err = fmt.Errorf("leave namespace %s: %w", n.Name, e)
			return
		}
		runtime.UnlockOSThread() // ours
		runtime.UnlockOSThread() // Enter's
	}()
	if err := n.Enter(); err != nil {
		return err
	}
	return f()
}

// Command is a command inside the namespace, with /sys as seen there. It is
// the process itself, without a parent in between: killing it kills it.
func (n *Netns) Command(name string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", n.Name, name}, args...)...)
}

// Sh runs a shell script (sh -e) inside the namespace and returns what it wrote.
func (n *Netns) Sh(script string) (string, error) {
	return command("ip", "netns", "exec", n.Name, "sh", "-ec", script)
}

// Connect makes a pair of veth devices, device a in namespace an and b in bn,
// both up, with offloads as a wire would have them: complete checksums, VLAN
// tags in the frame, no segments larger than the MTU; and no IPv6 chatter.
func Connect(an *Netns, a string, bn *Netns, b string) error {
	if _, err := command("ip", "link", "add", a, "netns", an.Name, "type", "veth", "peer", "name", b, "netns", bn.Name); err != nil {
		return err
	}
	for _, end := range []struct {
		n   *Netns
		dev string
	}{{an, a}, {bn, b}} {
		if _, err := end.n.Sh(fmt.Sprintf(`
			ethtool -K %[1]s tx off txvlan off rxvlan off tso off gso off >/dev/null
			echo 1 2>/dev/null > /proc/sys/net/ipv6/conf/%[1]s/disable_ipv6 || true
			ip link set %[1]s up`, end.dev)); err != nil {
			return err
		}
	}
	return nil
}

func command(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
