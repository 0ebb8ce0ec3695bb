// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

func TestIsChannel(t *testing.T) {
	for group, want := range map[string]bool{
		"232.1.2.3": true, "239.1.1.1": true, "233.252.0.1": true, "226.0.0.5": true,
		"224.0.0.251": false, "224.0.1.1": false, "239.255.255.250": false, "239.192.152.143": false, "192.0.2.1": false,
		"ff3e::8000:1": true, "ff15::1234": true, "ff38::1": true,
		"ff02::1:ff00:1": false, "ff05::c": false, "ff0e::101": false, "ff12::1": false, "2001:db8::1": false,
	} {
		if got := isChannel(netip.MustParseAddr(group)); got != want {
			t.Errorf("%s: %v", group, got)
		}
	}
}

func TestReadMulticast(t *testing.T) {
	hex := func(group string) string { // as the CPU reads network order
		return fmt.Sprintf("%08X", binary.NativeEndian.Uint32(netip.MustParseAddr(group).AsSlice()))
	}
	igmp := "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n" +
		"1\tlo        :     1      V3\n\t\t\t\t" + hex("224.0.0.1") + "     1 0:00000000\t\t0\n" +
		"7\todd name  :     2      V3\n\t\t\t\t" + hex("232.1.2.3") + "     1 0:00000000\t\t1\n" +
		"\t\t\t\t" + hex("224.0.0.1") + "     1 0:00000000\t\t0\n\t\t\t\tnothing\n\n"
	want := []membership{{1, netip.MustParseAddr("224.0.0.1")}, {7, netip.MustParseAddr("232.1.2.3")}, {7, netip.MustParseAddr("224.0.0.1")}}
	if got := readIGMP(strings.NewReader(igmp)); !slices.Equal(got, want) {
		t.Errorf("igmp: %v, want %v", got, want)
	}
	igmp6 := "1    lo              ff020000000000000000000000000001     1 0000000C 0\n" +
		"7    odd name        ff3e0000000000000000000080000001     1 00000004 0\nshort\n"
	want = []membership{{1, netip.MustParseAddr("ff02::1")}, {7, netip.MustParseAddr("ff3e::8000:1")}}
	if got := readIGMP6(strings.NewReader(igmp6)); !slices.Equal(got, want) {
		t.Errorf("igmp6: %v, want %v", got, want)
	}
	vif := "Interface      BytesIn  PktsIn  BytesOut PktsOut Flags Local    Remote\n" +
		" 0 wan            1000      10         0       0 00000 0200C0C6 00000000\n 1 odd name          0       0      1000      10 00000 0101A8C0 00000000\n"
	if got := readVIF(strings.NewReader(vif), vifColumns); !slices.Equal(got, []string{"wan", "odd name"}) {
		t.Errorf("ip_mr_vif: %q", got)
	}
	vif6 := "Interface      BytesIn  PktsIn  BytesOut PktsOut Flags\n 0 wan              0       0         0       0 00000\n"
	if got := readVIF(strings.NewReader(vif6), vif6Columns); !slices.Equal(got, []string{"wan"}) {
		t.Errorf("ip6_mr_vif: %q", got)
	}
	if got := readVIF(strings.NewReader("Interface\n 0\n\n"), vifColumns); len(got) != 0 {
		t.Errorf("cut short: %q", got)
	}
}

func TestCPUMask(t *testing.T) {
	for text, want := range map[string][]uint32{
		"f\n": {0xf}, "00000001,80000003\n": {0x80000003, 1}, "0\n": {0}, "": nil, "x\n": nil,
	} {
		if got := cpuMask(text); !slices.Equal(got, want) {
			t.Errorf("%q: %x, want %x", text, got, want)
		}
	}
	dir := t.TempDir()
	for queue, mask := range map[string]string{"rx-0": "3\n", "rx-1": "00000001,00000006\n", "tx-0": "ff\n"} {
		if err := os.MkdirAll(filepath.Join(dir, "queues", queue), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "queues", queue, "rps_cpus"), []byte(mask), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := steered(dir); got != 4 {
		t.Errorf("%d CPUs, want 4", got)
	}
	if got := steered(t.TempDir()); got != 0 {
		t.Errorf("%d CPUs without queues", got)
	}
}

// TestObserveMulticast: a group that a program joins, one that a bridge's host
// has joined, and a multicast router's interface; what every home has isn't TV.
func TestObserveMulticast(t *testing.T) {
	testkit.Need(t, has("bridge"), "needs bridge")
	inNamespace(t)
	veth(t, "lan", "wan")
	run(t, "ip link add br0 type bridge mcast_snooping 1")
	run(t, "ip link set lan master br0")
	run(t, "ip link set br0 up")
	run(t, "ip addr add 192.0.2.1/24 dev wan")
	k := newKernel(t)
	expect := func(what string, want map[string]string) {
		t.Helper()
		for name, part := range map[string]string{"wan": want["wan"], "br0": want["br0"], "lan": ""} {
			if got := observe(t, k).Multicast[name]; (part == "") != (got == "") || !strings.Contains(got, part) {
				t.Errorf("%s: %s has %q, want … %s …", what, name, got, part)
			}
		}
	}
	joinGroup(t, "wan", "239.255.255.250")
	run(t, "bridge mdb add dev br0 port lan grp 224.0.1.60 permanent")
	expect("what every home has", nil)
	joinGroup(t, "wan", "232.1.2.3")
	expect("joined", map[string]string{"wan": "232.1.2.3"})
	run(t, "bridge mdb add dev br0 port lan grp ff3e::1 permanent")
	expect("snooped", map[string]string{"wan": "232.1.2.3", "br0": "ff3e::1"})
	if routeMulticast(t, "br0", observe(t, k)) {
		expect("routed", map[string]string{"wan": "232.1.2.3", "br0": "multicast router"})
	}
}

// socket opens one in this thread's namespace until the test ends.
func socket(t *testing.T, typ, protocol int) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, typ|unix.SOCK_CLOEXEC, protocol)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func joinGroup(t *testing.T, device, group string) {
	t.Helper()
	k := newKernel(t)
	request := &unix.IPMreqn{Multiaddr: netip.MustParseAddr(group).As4(), Ifindex: int32(link(t, observe(t, k), device).Index)}
	must(t, unix.SetsockoptIPMreqn(socket(t, unix.SOCK_DGRAM, 0), unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, request))
}

// From include/uapi/linux/mroute.h.
const (
	mrtInit    = 200
	mrtAddVIF  = 202
	vifByIndex = 0x8 // VIFF_USE_IFINDEX
)

// routeMulticast is a multicast router with one interface; false: the kernel can't.
func routeMulticast(t *testing.T, device string, o state.Observed) bool {
	t.Helper()
	fd := socket(t, unix.SOCK_RAW, unix.IPPROTO_IGMP)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, mrtInit, 1); err != nil {
		t.Logf("this kernel routes no multicast: %v", err)
		return false
	}
	// struct vifctl: number, flags, threshold, rate limit, local, remote.
	vif := []byte{0, 0, vifByIndex, 1, 0, 0, 0, 0}
	vif = binary.NativeEndian.AppendUint32(vif, uint32(link(t, o, device).Index))
	vif = append(vif, 0, 0, 0, 0)
	must(t, unix.SetsockoptString(fd, unix.IPPROTO_IP, mrtAddVIF, string(vif)))
	return true
}
