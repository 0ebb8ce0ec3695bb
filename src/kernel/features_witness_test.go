// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"testing"

	safchain "github.com/safchain/ethtool"

	"fastpath/src/state"
)

// Another reader of the same features, by ioctl where ours speaks netlink, sees
// the same before and after a change.
func TestFeaturesByAnotherReader(t *testing.T) {
	inNamespace(t)
	run(t, "ip link add lan type veth peer name far")
	k := newKernel(t)
	witness, err := safchain.NewEthtool()
	must(t, err)
	defer witness.Close()
	for _, want := range []state.Offloads{{GRO: true, GROList: true}, {}, {GRO: true, RxVLAN: true}, {GRO: true}} {
		must(t, k.Apply(state.SetOffloads{Port: "lan", Want: want}))
		got := offloadsOf(t, k, "lan")
		seen, err := witness.Features("lan")
		must(t, err)
		if other := (state.Offloads{GRO: seen["rx-gro"], GROList: seen["rx-gro-list"], GROHW: seen["rx-gro-hw"],
			LRO: seen["rx-lro"], RxVLAN: seen["rx-vlan-hw-parse"]}); got != want || other != want {
			t.Errorf("set %v: we read %v, ethtool's ioctl says %v", want, got, other)
		}
	}
}
