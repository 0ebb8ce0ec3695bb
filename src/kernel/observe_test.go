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

// TestObserveFeatures compares with what ethtool says, for each port.
func TestObserveFeatures(t *testing.T) {
	testkit.Need(t, has("ethtool"), "needs ethtool")
	inNamespace(t)
	run(t, "ip link add br0 type bridge")
	veth(t, "lan", "wan")
	run(t, "ethtool -K wan gro on rx-gro-list on")
	k := newKernel(t)
	o := observe(t, k)
	for _, name := range []string{"lan", "wan", "br0", "lo"} {
		f := link(t, o, name).Feature
		want := ethtoolSays(t, name)
		for i, got := range []state.Feature{f.GRO, f.GROList, f.GROHW, f.LRO} {
			if got != want[featureNames[i]] {
				t.Errorf("%s %s: %+v, ethtool says %+v", name, featureNames[i], got, want[featureNames[i]])
			}
		}
	}
	if !link(t, o, "wan").Feature.GROList.On {
		t.Error("rx-gro-list was switched on and is off")
	}
}

// ethtoolSays reads `ethtool -k`, which has names of its own for three of them.
func ethtoolSays(t *testing.T, device string) map[string]state.Feature {
	t.Helper()
	names := map[string]string{
		"generic-receive-offload": "rx-gro", "rx-gro-list": "rx-gro-list",
		"rx-gro-hw": "rx-gro-hw", "large-receive-offload": "rx-lro",
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
	must(t, netlink.LinkSetXdpFd(l, prog.FD()))
	info, err := prog.Info()
	must(t, err)
	id, _ := info.ID()
	if got := link(t, observe(t, newKernel(t)), "wan").XDP; got != uint32(id) {
		t.Errorf("XDP program %d, want %d", got, id)
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
