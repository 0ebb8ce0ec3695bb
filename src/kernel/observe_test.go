// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

func TestObserveLinks(t *testing.T) {
	inNamespace(t)
	run(t, "ip link add br-lan type bridge")
	veth(t, "lan1", "wan")
	run(t, "ip link set lan1 master br-lan")
	run(t, "ip link set wan mtu 1400 address 02:00:00:00:00:35")
	run(t, "ip link set wan down")
	k := newKernel(t)
	o := observe(t, k)
	br, lan1, wan := link(t, o, "br-lan"), link(t, o, "lan1"), link(t, o, "wan")
	if br.Kind != "bridge" || lan1.Kind != "veth" || lan1.Master != br.Index || wan.Master != 0 {
		t.Errorf("kinds and masters: %+v %+v %+v", br, lan1, wan)
	}
	if wan.MTU != 1400 || wan.MAC != [6]byte{2, 0, 0, 0, 0, 0x35} || wan.Up || !lan1.Up {
		t.Errorf("wan %+v, lan1 %+v", wan, lan1)
	}
	if lan1.Lower != 0 || lan1.Bus || lan1.XDP != 0 {
		t.Errorf("a veth has nothing below it and is no NIC: %+v", lan1)
	}
	if !slices.IsSortedFunc(o.Links, func(a, b state.Link) int { return a.Index - b.Index }) {
		t.Error("links are not sorted by index")
	}
	if o.Release == "" || strings.Contains(o.Release, "\x00") {
		t.Errorf("release %q", o.Release)
	}
}

// TestObserveAddressed: an address of the link alone doesn't count.
func TestObserveAddressed(t *testing.T) {
	inNamespace(t)
	run(t, "ip link add br0 type bridge")
	veth(t, "lan1", "wan", "wan6")
	run(t, "ip address add 192.0.2.1/24 dev lan1")
	run(t, "ip -6 address add fe80::35/64 dev wan nodad")
	run(t, "ip -6 address add 2001:db8::1/64 dev wan6 nodad")
	k := newKernel(t)
	for _, last := range []bool{false, true} {
		o := observe(t, k)
		for name, want := range map[string]bool{"br0": false, "lan1": !last, "wan": false, "wan6": true} {
			if got := link(t, o, name).Addressed; got != want {
				t.Errorf("%s addressed: %v", name, got)
			}
		}
		run(t, "ip address flush dev lan1")
	}
}

// TestObserveFeatures compares with what ethtool says, for each port.
func TestObserveFeatures(t *testing.T) {
	testkit.Need(t, has("ethtool"), "needs ethtool")
	inNamespace(t)
	run(t, "ip link add br0 type bridge")
	veth(t, "lan", "wan")
	run(t, "ethtool -K wan gro on rx-gro-list on rx-udp-gro-forwarding on")
	k := newKernel(t)
	o := observe(t, k)
	for _, name := range []string{"lan", "wan", "br0", "lo"} {
		f := link(t, o, name).Feature
		want := ethtoolSays(t, name)
		for i, got := range []state.Feature{f.GRO, f.GROList, f.GROHW, f.LRO, f.RxVLAN, f.UDPForward} {
			if got != want[featureNames[i]] {
				t.Errorf("%s %s: %+v, ethtool says %+v", name, featureNames[i], got, want[featureNames[i]])
			}
		}
	}
	if f := link(t, o, "wan").Feature; !f.GROList.On || !f.UDPForward.On {
		t.Errorf("switched on: rx-gro-list, rx-udp-gro-forwarding; seen: %+v", f)
	}
}

// ethtoolSays reads `ethtool -k`, which has names of its own for four of them.
func ethtoolSays(t *testing.T, device string) map[string]state.Feature {
	t.Helper()
	names := map[string]string{
		"generic-receive-offload": "rx-gro", "rx-gro-list": "rx-gro-list",
		"rx-gro-hw": "rx-gro-hw", "large-receive-offload": "rx-lro",
		"rx-vlan-offload": "rx-vlan-hw-parse", "rx-udp-gro-forwarding": "rx-udp-gro-forwarding",
	}
	out := map[string]state.Feature{}
	for line := range strings.Lines(run(t, "ethtool -k "+device)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if n, ok := names[name]; ok {
			out[n] = state.Feature{On: strings.HasPrefix(value, "on"), Fixed: strings.Contains(value, "[fixed]")}
		}
	}
	return out
}

func TestObserveXDP(t *testing.T) {
	inNamespace(t)
	veth(t, "wan")
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()},
	})
	testkit.Need(t, err == nil, "needs BPF")
	defer prog.Close()
	l, err := netlink.LinkByName("wan")
	must(t, err)
	info, err := prog.Info()
	must(t, err)
	id, _ := info.ID()
	for _, generic := range []bool{false, true} {
		flags := map[bool]int{false: unix.XDP_FLAGS_DRV_MODE, true: unix.XDP_FLAGS_SKB_MODE}[generic]
		must(t, netlink.LinkSetXdpFdWithFlags(l, prog.FD(), flags))
		if got := link(t, observe(t, newKernel(t)), "wan"); got.XDP != uint32(id) || got.XDPGeneric != generic {
			t.Errorf("XDP program %d, generic %v; want %d, %v", got.XDP, got.XDPGeneric, id, generic)
		}
		must(t, netlink.LinkSetXdpFdWithFlags(l, -1, flags))
	}
	if got := link(t, observe(t, newKernel(t)), "wan"); got.XDP != 0 || got.XDPGeneric {
		t.Errorf("taken away, but %+v", got)
	}
}

// TestObserveQueues: what is in use counts, not what there could be.
func TestObserveQueues(t *testing.T) {
	testkit.Need(t, has("ethtool"), "needs ethtool")
	inNamespace(t)
	run(t, "ip link add br0 type bridge")
	run(t, "ip link add wan numrxqueues 4 numtxqueues 4 type veth peer name far numrxqueues 4 numtxqueues 4")
	run(t, "ethtool -L wan rx 3 tx 2")
	o := observe(t, newKernel(t))
	if wan, far, br0 := link(t, o, "wan").Queues, link(t, o, "far").Queues, link(t, o, "br0").Queues; wan != 3 || far != 1 && far != 4 || br0 != 1 {
		t.Errorf("queues: wan %d, far %d, br0 %d", wan, far, br0)
	}
}

// xdpBasic is NETDEV_XDP_ACT_BASIC (include/uapi/linux/netdev.h).
const xdpBasic = 1

func TestObserveXDPFeatures(t *testing.T) {
	inNamespace(t)
	veth(t, "wan")
	run(t, "ip link add br0 type bridge")
	k := newKernel(t)
	o := observe(t, k)
	if k.noNetdev {
		t.Log(o.Release + " doesn't tell")
		return
	}
	if wan, br0 := link(t, o, "wan").XDPFeatures, link(t, o, "br0").XDPFeatures; wan&xdpBasic == 0 || br0 != 0 {
		t.Errorf("XDP features: wan %#x, br0 %#x", wan, br0)
	}
}

// TestObserveIsLinear: the number of calls to the kernel does not grow with
// the number of ports.
func TestObserveIsLinear(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	calls := func() map[string]int {
		count := map[string]int{}
		k.fault = func(call string) error { count[call]++; return nil }
		defer func() { k.fault = nil }()
		k.trial = trial{}
		observe(t, k)
		return count
	}
	calls() // what is asked once only
	few := calls()
	for i := range 50 {
		run(t, fmt.Sprintf("ip link add p%d type veth peer name q%d", i, i))
	}
	if many := calls(); !maps.Equal(few, many) {
		t.Errorf("calls with few ports %v, with 100 more %v", few, many)
	}
}

func BenchmarkObserve1000Ports(b *testing.B) {
	testkit.Need(b, os.Getenv("FASTPATH_BENCH") != "", "needs FASTPATH_BENCH=1: it makes 1,000 ports")
	inNamespace(b)
	for i := range 500 {
		run(b, fmt.Sprintf("ip link add p%d type veth peer name q%d", i, i))
	}
	k := newKernel(b)
	b.ReportAllocs()
	for b.Loop() {
		observe(b, k)
	}
}

func TestSysfs(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "phy0-ap0")
	must(t, os.MkdirAll(filepath.Join(dir, "device"), 0o755))
	must(t, os.Symlink("../../../bus/pci/drivers/mt7915e", filepath.Join(dir, "device/driver")))
	for name, c := range map[string]struct {
		uevent string
		want   state.Link
	}{
		"wireless":                 {"DEVTYPE=wlan\nINTERFACE=phy0-ap0\nIFINDEX=7\n", state.Link{Index: 7, Name: "phy0-ap0", DevType: "wlan", Driver: "mt7915e"}},
		"plain":                    {"INTERFACE=phy0-ap0\nIFINDEX=7\n", state.Link{Index: 7, Name: "phy0-ap0", Driver: "mt7915e"}},
		"another namespace's /sys": {"DEVTYPE=dsa\nINTERFACE=phy0-ap0\nIFINDEX=8\n", state.Link{Index: 7, Name: "phy0-ap0"}},
		"missing":                  {"", state.Link{Index: 7, Name: "phy0-ap0"}},
	} {
		if c.uevent == "" {
			os.Remove(filepath.Join(dir, "uevent"))
		} else {
			must(t, os.WriteFile(filepath.Join(dir, "uevent"), []byte(c.uevent), 0o644))
		}
		got := state.Link{Index: 7, Name: "phy0-ap0"}
		readSysfs(&got, root)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
