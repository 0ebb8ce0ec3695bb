// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

func TestChecks(t *testing.T) {
	inNamespace(t)
	veth(t, "lan", "wan")
	run(t, "ip link set peer-lan up")
	k := newKernel(t)
	apply(t, k, state.AddCheck{Device: "wan"})
	apply(t, k, state.AddCheck{Device: "lan"})
	if got := observe(t, k).Checks; !slices.Equal(got, []string{"lan", "wan"}) {
		t.Fatalf("checks %v", got)
	}
	before, err := k.Counters()
	must(t, err)
	sendFrames(t, "peer-lan", 20)
	after, err := k.Counters()
	must(t, err)
	lan, wan := after.Ports["lan"], after.Ports["wan"]
	if lan.Ingress-before.Ports["lan"].Ingress < 20 || lan.Ingress > lan.RxPackets || lan.RxBytes < 20*60 || wan.Ingress > wan.RxPackets {
		t.Errorf("lan %+v, wan %+v", lan, wan)
	}
	apply(t, k, state.RemoveCheck{Device: "wan"})
	apply(t, k, state.RemoveCheck{Device: "wan"})
	if got := observe(t, k).Checks; !slices.Equal(got, []string{"lan"}) {
		t.Errorf("checks %v", got)
	}
	apply(t, k, state.RemoveCheck{Device: "lan"})
	if left := run(t, "nft list ruleset"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// sendFrames sends frames of 60 bytes of an unknown protocol out of a device.
func sendFrames(t *testing.T, device string, n int) {
	t.Helper()
	l, err := netlink.LinkByName(device)
	must(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	frame := make([]byte, 60)
	copy(frame, "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x88\xb5") // broadcast, local experimental
	for range n {
		must(t, unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index}))
	}
}

// TestCheckVanish: a device that goes between look and step, and one that
// comes back under the same name; after each the checks can be put right.
func TestCheckVanish(t *testing.T) {
	inNamespace(t)
	veth(t, "lan", "wan")
	k := newKernel(t)
	run(t, "ip link del wan")
	err := k.Apply(state.AddCheck{Device: "wan"})
	if err != nil && !errors.Is(err, ErrVanished) {
		t.Fatal(err)
	}
	t.Log("a device that isn't there:", err)
	settleChecks(t, k, "lan")
	run(t, "ip link del lan")
	settleChecks(t, k)
	veth(t, "lan", "wan")
	settleChecks(t, k, "lan", "wan")
	run(t, "ip link set lan down")
	run(t, "ip link set lan name old")
	settleChecks(t, k, "old", "wan")
	veth(t, "lan2")
	run(t, "ip link set lan2 down")
	run(t, "ip link set lan2 name lan")
	settleChecks(t, k, "lan", "old", "wan")
	must(t, k.Cleanup())
	if left := run(t, "nft list ruleset"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// settleChecks does what a plan would do.
func settleChecks(t *testing.T, k *Kernel, want ...string) {
	t.Helper()
	have := observe(t, k).Checks
	for _, d := range have {
		if !slices.Contains(want, d) {
			apply(t, k, state.RemoveCheck{Device: d})
		}
	}
	for _, d := range want {
		if !slices.Contains(have, d) {
			apply(t, k, state.AddCheck{Device: d})
		}
	}
	if got := observe(t, k).Checks; !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Fatalf("checks %v, want %v", got, want)
	}
}

// TestCheckIsReadable: the router's owner sees what the chain is for.
func TestCheckIsReadable(t *testing.T) {
	inNamespace(t)
	veth(t, "eth0.35")
	k := newKernel(t)
	apply(t, k, state.AddCheck{Device: "eth0.35"})
	listed := run(t, "nft list table netdev fastpath")
	for _, part := range []string{"chain check-eth0.35 {", "policy accept", "counter packets", checkComment} {
		if !strings.Contains(listed, part) {
			t.Errorf("no %q in\n%s", part, listed)
		}
	}
}
