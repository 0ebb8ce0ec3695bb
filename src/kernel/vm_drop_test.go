// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"fastpath/src/state"
)

// TestVMDrop: what is listed is dropped at each hook that the kernel has, whatever
// lies around it, and nothing else. Kernels differ in what rules see of a frame.
func TestVMDrop(t *testing.T) {
	if !needVM(t) {
		return
	}
	veth(t, "wan")
	run(t, "ip link set peer-wan up")
	run(t, "ethtool -K peer-wan tso off") // or the other end has no NAPI list
	run(t, "ethtool -K wan gro on")
	k := newKernel(t)
	wires := wireForms()
	for _, n := range hookNumbers() {
		d := testDrop("wan")
		d.Chains[0].Number = n
		if n != state.NumberIngress {
			d.Chains[0].Forms = wires // nobody has taken a tag off
		}
		apply(t, k, state.SetDrop{Drop: d})
		if got := observe(t, k).Drop; !got.Is(&d) {
			t.Fatalf("read back %+v, want %+v", got, d.State())
		}
		for _, wire := range wires {
			dropped, received := droppedAt(t, k, "wan"), receivedAt(t, k, "wan")
			for _, source := range []string{"198.51.100.7", "198.51.101.0", "2001:db8:bad::1", "2001:db8:bae::"} {
				sendFrame(t, "peer-wan", around(wire, netip.MustParseAddr(source)), 3)
			}
			for end := time.Now().Add(30 * time.Second); receivedAt(t, k, "wan") < received+12 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if got := droppedAt(t, k, "wan") - dropped; got != 6 {
				t.Errorf("hook %d: %d of 12 packets in %s dropped, want 6", n, got, wire)
			}
		}
	}
}

// wireForms are the frames of dropForms before a tag was taken off.
func wireForms() (wires []state.DropForm) {
	for _, f := range dropForms {
		if f.Tags == nil {
			wires = append(wires, f)
		}
		for _, tag := range []uint16{state.TypeVLAN, state.TypeQinQ} {
			wires = append(wires, state.DropForm{Tags: slices.Concat([]uint16{tag}, f.Tags), PPPoE: f.PPPoE})
		}
	}
	return wires
}

func receivedAt(t *testing.T, k *Kernel, device string) uint64 {
	t.Helper()
	c, err := k.Counters()
	must(t, err)
	return c.Ports[device].RxPackets
}
