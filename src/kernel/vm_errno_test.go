// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// TestVMErrnos provokes what nf_tables refuses, and reads the line. What a
// missing device, module or permission gives is in the tests of each.
func TestVMErrnos(t *testing.T) {
	if !needVM(t) {
		return
	}
	veth(t, "lan", "wan", "opt")
	k := newKernel(t)
	installed := table(state.NumberIngress, "lan")
	apply(t, k, state.ReplaceTable{Table: installed})
	load(t, "table inet fastpath { flowtable other { hook ingress priority 5; devices = { opt }; }; }")
	for _, c := range []struct {
		name  string
		build func(b *batch)
		errno unix.Errno
		word  string
	}{
		{"a hook that there isn't", func(b *batch) { b.addTo(state.Flowtable{Number: 7, Counter: true}, "fresh", "wan") },
			unix.EOPNOTSUPP, "no such hook"},
		{"an update with another hook", func(b *batch) { b.addTo(state.Flowtable{Number: 7, Counter: true}, state.FlowtableName, "wan") },
			unix.EOPNOTSUPP, "no such hook"},
		{"hardware offload of a virtual device", func(b *batch) { b.hardware("wan") }, unix.EOPNOTSUPP, "no hardware support"},
		{"a flowtable that a rule uses is deleted", (*batch).deleteOurs, unix.EBUSY, "a rule refers to it"},
		{"a device in two flowtables of a table", func(b *batch) { b.addTo(installed.Flowtable, state.FlowtableName, "opt") },
			unix.EEXIST, "one flowtable of a table only"},
		{"a device that isn't in it is taken out", func(b *batch) { b.removeDevices(state.TableName, state.FlowtableName, []string{"wan"}) },
			unix.ENOENT, "no such thing"},
		{"a table that there isn't", func(b *batch) { b.deleteTable(unix.NFPROTO_INET, "nowhere") }, unix.ENOENT, "no such thing"},
		{"a name that is too long", func(b *batch) { b.addTo(installed.Flowtable, state.FlowtableName, "sixteen-bytes-xy") },
			tooLong(), "flowtable: "},
	} {
		before := run(t, "nft list ruleset")
		var b batch
		c.build(&b)
		wantErrno(t, k, c.name, &b, c.errno, c.word)
		if after := run(t, "nft list ruleset"); after != before {
			t.Errorf("%s: the ruleset became\n%s\nof\n%s", c.name, after, before)
		}
	}
	err := k.Apply(state.AddDevices{Flowtable: installed.Flowtable, Devices: []string{"opt"}})
	if err == nil || !strings.Contains(err.Error(), "add to the flowtable: opt: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the step's error is %v", err)
	}
}

// tooLong is what kernels say to a name of 16 bytes: older ones read it as far as
// it fits, and find no such device.
func tooLong() unix.Errno {
	if strings.HasPrefix(release(), "6.") {
		return unix.ENOENT
	}
	return unix.E2BIG
}

func (b *batch) addTo(f state.Flowtable, name string, device string) {
	b.addToFlowtable(state.TableName, name, f, []string{device})
}

func (b *batch) hardware(device string) {
	b.message(flowtableObject, unix.NFT_MSG_NEWFLOWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, func(w *writer) {
		w.str(nftaFlowtableTable, state.TableName)
		w.str(nftaFlowtableName, "hardware")
		w.nest(nftaFlowtableHook, func() {
			w.be32(nftaFlowtableHookNum, state.NumberIngress)
			w.be32(nftaFlowtablePriority, 0)
			w.devices([]string{device})
		})
		w.be32(nftaFlowtableFlags, flowtableHardware)
	})
}

func (b *batch) deleteOurs() {
	b.message(flowtableObject, unix.NFT_MSG_DELFLOWTABLE, 0, unix.NFPROTO_INET, func(w *writer) {
		w.str(nftaFlowtableTable, state.TableName)
		w.str(nftaFlowtableName, state.FlowtableName)
	})
}
