// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

func TestAccelerators(t *testing.T) {
	modules := "xt_FLOWOFFLOAD 16384 2 - Live 0x0000000000000000\n" +
		"nf_flow_table 45056 4 nf_flow_table_inet,nft_flow_offload, Live 0x0\n" +
		"mtkhnat 77824 0 - Live 0x0 (O)\nshortcut_fe 1 0 - Live 0x0\nmtkhnat_tools 1 0 - Live 0x0\nnatflow\n"
	want := []string{"mtkhnat", "shortcut_fe", "xt_FLOWOFFLOAD"}
	if got := loadedAccelerators(strings.NewReader(modules)); !slices.Equal(got, want) {
		t.Errorf("accelerators %v, want %v", got, want)
	}
	if got := loadedAccelerators(strings.NewReader("xt_FLOWOFFLOAD 16384 0 - Live 0x0\n")); got != nil {
		t.Errorf("loaded, but used by no rule: %v", got)
	}
}

// TestBridger: a process of that name counts while it runs in our namespace and
// a BPF program is at tc ingress of some port.
func TestBridger(t *testing.T) {
	inNamespace(t)
	testkit.Need(t, has("tc") && has("sleep"), "needs tc and sleep")
	veth(t, "lan")
	k := newKernel(t)
	found := func() bool { return slices.Contains(observe(t, k).Accelerators, state.Bridger) }
	sleep, err := exec.LookPath("sleep")
	must(t, err)
	path := filepath.Join(t.TempDir(), state.Bridger)
	must(t, os.Symlink(sleep, path))
	bridger := exec.Command(path, "1000")
	must(t, bridger.Start())
	defer func() { bridger.Process.Kill(); bridger.Wait() }()
	if found() {
		t.Error("found, though it has no program at a port")
	}
	run(t, "tc qdisc add dev lan clsact")
	out, err := exec.Command("tc", "filter", "add", "dev", "lan", "ingress", "bpf", "da", "bytecode", "1,6 0 0 4294967295,").CombinedOutput()
	if err != nil {
		t.Fatalf("tc: %v: %s", err, out)
	}
	if !found() {
		t.Error("not found")
	}
	must(t, bridger.Process.Kill())
	bridger.Wait()
	if found() {
		t.Error("found, though it has ended")
	}
}

// TestVMForeignFlowtables: neither ours nor fw4's are among them.
func TestVMForeignFlowtables(t *testing.T) {
	if !needVM(t) {
		return
	}
	veth(t, "lan", "wan")
	load(t, fw4Ruleset+`
table inet fw4 { flowtable ft { hook ingress priority filter; devices = { lan, wan }; }; }
table ip z { flowtable b { hook ingress priority filter; devices = { wan, lan }; }; flowtable a { hook ingress priority filter; }; }
table inet other { flowtable ft { hook ingress priority 10; devices = { wan }; }; }
`)
	k := newKernel(t)
	apply(t, k, state.ReplaceTable{Table: table(state.NumberIngress, "lan", "wan")})
	o := observe(t, k)
	want := []state.ForeignFlowtable{{Table: "inet other", Name: "ft"}, {Table: "ip z", Name: "a"}, {Table: "ip z", Name: "b"}}
	same := func(a, b state.ForeignFlowtable) bool { return a.Table == b.Table && a.Name == b.Name && !a.Hardware }
	if !o.FW4.Offload || !slices.EqualFunc(o.Flowtables, want, same) ||
		!slices.Equal(o.Flowtables[0].Devices, []string{"wan"}) || !slices.Equal(o.Flowtables[2].Devices, []string{"lan", "wan"}) {
		t.Errorf("fw4 %+v, flowtables %+v", o.FW4, o.Flowtables)
	}
}
