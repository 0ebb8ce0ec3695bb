// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"slices"
	"testing"

	"fastpath/src/state"
)

// vanish checks a step whose device was deleted just before: a kernel that
// holds devices refuses it as a whole, one that holds names accepts it.
func vanish(t *testing.T, k *Kernel, step state.Step, device string) {
	t.Helper()
	err := k.Apply(step)
	if keepsNames() {
		must(t, err)
		return
	}
	if !errors.Is(err, ErrVanished) {
		t.Fatalf("%s: %v, wanted ErrVanished", step, err)
	}
	var e *Error
	if !errors.As(err, &e) || e.Object != device {
		t.Errorf("%v does not name %s", err, device)
	}
	t.Log(err)
}

// settle looks again and does what a plan would do, so that the flowtable has
// just the devices that exist; a second look must then have nothing to do.
func settle(t *testing.T, k *Kernel, want state.Table) {
	t.Helper()
	o := observe(t, k)
	if o.Table == nil {
		apply(t, k, state.ReplaceTable{Table: want})
	} else {
		var gone, missing []string
		for _, d := range o.Table.Flowtable.Devices {
			if !slices.Contains(want.Flowtable.Devices, d) {
				gone = append(gone, d)
			}
		}
		for _, d := range want.Flowtable.Devices {
			if !slices.Contains(o.Table.Flowtable.Devices, d) {
				missing = append(missing, d)
			}
		}
		if gone != nil {
			apply(t, k, state.RemoveDevices{Flowtable: o.Table.Flowtable, Devices: gone})
		}
		if missing != nil {
			apply(t, k, state.AddDevices{Flowtable: o.Table.Flowtable, Devices: missing})
		}
	}
	same(t, k, &want)
}

// TestVMVanishReplace deletes a device between the look and the transaction
// that makes the table.
func TestVMVanishReplace(t *testing.T) {
	if !needVM(t) {
		return
	}
	for _, n := range hookNumbers() {
		veth(t, "lan", "wan")
		k := newKernel(t)
		link(t, observe(t, k), "wan")
		run(t, "ip link del wan")
		vanish(t, k, state.ReplaceTable{Table: table(n, "lan", "wan")}, "wan")
		settle(t, k, table(n, "lan"))
		must(t, k.Cleanup())
		run(t, "ip link del lan")
	}
}

// TestVMVanishAdd deletes a device between the look and its addition; the
// flowtable that stands keeps what it has.
func TestVMVanishAdd(t *testing.T) {
	if !needVM(t) {
		return
	}
	for _, n := range hookNumbers() {
		veth(t, "lan", "wan")
		k := newKernel(t)
		want := table(n, "lan")
		apply(t, k, state.ReplaceTable{Table: want})
		link(t, observe(t, k), "wan")
		run(t, "ip link del wan")
		vanish(t, k, state.AddDevices{Flowtable: want.Flowtable, Devices: []string{"wan"}}, "wan")
		settle(t, k, want)
		must(t, k.Cleanup())
		run(t, "ip link del lan")
	}
}

// TestVMVanishMember: a device of the flowtable is deleted, comes back, and is
// renamed; after each, what was looked at can be settled.
func TestVMVanishMember(t *testing.T) {
	if !needVM(t) {
		return
	}
	veth(t, "lan", "wan")
	k := newKernel(t)
	apply(t, k, state.ReplaceTable{Table: table(state.NumberIngress, "lan", "wan")})
	run(t, "ip link del wan")
	settle(t, k, table(state.NumberIngress, "lan"))
	apply(t, k, state.RemoveDevices{Flowtable: table(state.NumberIngress, "lan").Flowtable, Devices: []string{"wan"}})
	veth(t, "wan")
	settle(t, k, table(state.NumberIngress, "lan", "wan"))
	run(t, "ip link set wan down")
	run(t, "ip link set wan name wan2")
	settle(t, k, table(state.NumberIngress, "lan", "wan2"))
}

// TestVMTableGone: somebody deletes our table (fw4 flush does) before a step.
func TestVMTableGone(t *testing.T) {
	if !needVM(t) {
		return
	}
	veth(t, "lan", "wan")
	k := newKernel(t)
	want := table(state.NumberIngress, "lan")
	for _, step := range []state.Step{
		state.AddDevices{Flowtable: want.Flowtable, Devices: []string{"wan"}},
		state.ReplaceRules{Table: want},
	} {
		apply(t, k, state.ReplaceTable{Table: want})
		run(t, "nft flush ruleset")
		if err := k.Apply(step); !errors.Is(err, ErrVanished) {
			t.Errorf("%s: %v, wanted ErrVanished", step, err)
		}
		same(t, k, nil)
	}
	apply(t, k, state.RemoveDevices{Flowtable: want.Flowtable, Devices: []string{"lan"}})
	apply(t, k, state.ReplaceTable{Table: want})
	same(t, k, &want)
}
