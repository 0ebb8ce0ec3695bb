// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// everyRule has each key once, in the forms that print themselves.
var everyRule = []state.Rule{
	state.Return.When(state.IsNot(state.KeyL4Proto, "tcp", "udp")),
	state.Return.When(state.IsNot(state.KeyCtState, "established")),
	state.Count.When(),
	state.Return.When(state.IsNot(state.KeyMark, "0")),
	state.Return.When(state.Is(state.KeyMark, "0x10")),
	state.Return.When(state.IsNot(state.KeyCtMark, "0/0x40000000")),
	state.Return.When(state.Is(state.KeyHelper)),
	state.Return.When(state.Is(state.KeySecpath)),
	state.Return.When(state.Is(state.KeyIPsec)),
	state.Return.When(state.Is(state.KeyIif, "lan")),
	state.Return.When(state.IsNot(state.KeyOif, "wan")),
	state.Mark(0x40000000).When(state.Is(state.KeyIif, "@"+state.EngineAFXDP), state.Is(state.KeyOif, "@"+state.EngineAFXDP)),
	state.Add.When(state.Is(state.KeyL4Proto, "tcp", "udp")),
	state.Add.When(state.Is(state.KeyCtState, "established")),
	state.Add.When(),
}

// earlyNumber is what the laboratory's kernel calls early_ingress.
const earlyNumber = 2

func earlyKernel() bool { return strings.Contains(release(), "earlyingress") }

// keepsNames: the kernel's flowtables hold names, not devices (6.16 and later
// accept a device that isn't there and bind it when it appears).
func keepsNames() bool { return strings.HasPrefix(release(), "7.") }

func hookNumbers() []uint32 {
	if earlyKernel() {
		return []uint32{state.NumberIngress, earlyNumber}
	}
	return []uint32{state.NumberIngress}
}

func table(number uint32, devices ...string) state.Table {
	return state.Table{
		Generation: "0123456789abcdef",
		Flowtable:  state.Flowtable{Number: number, Devices: devices, Counter: true},
		Engines:    map[string][]string{state.EngineAFXDP: {"br-lan", "pppoe-wan"}},
		Rules: slices.DeleteFunc(slices.Clone(everyRule), func(r state.Rule) bool {
			return !hasIPsec() && len(r.Matches) == 1 && (r.Matches[0].Key == state.KeySecpath || r.Matches[0].Key == state.KeyIPsec)
		}),
	}
}

// hasIPsec: the laboratory's kernel is built without XFRM.
func hasIPsec() bool { return !earlyKernel() }

func veth(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		run(t, "ip link add "+n+" type veth peer name peer-"+n)
		run(t, "ip link set "+n+" up")
	}
}

func TestVMHooks(t *testing.T) {
	if !needVM(t) {
		return
	}
	k := newKernel(t)
	o := observe(t, k)
	if !o.Hooks.Ingress.OK || o.IPsec.OK != hasIPsec() {
		t.Errorf("ingress %+v, IPsec %+v", o.Hooks.Ingress, o.IPsec)
	}
	if o.Hooks.Early.OK != earlyKernel() {
		t.Errorf("early_ingress on %s: %+v", release(), o.Hooks.Early)
	}
	if !earlyKernel() && !strings.Contains(o.Hooks.Early.Reason, "errno 95") {
		t.Errorf("reason %q names no errno", o.Hooks.Early.Reason)
	}
	if !k.trial.final {
		t.Error("every answer is final, but will be asked for again")
	}
	t.Logf("%s: %+v", release(), o.Hooks)
}

func TestVMTableRoundTrip(t *testing.T) {
	if !needVM(t) {
		return
	}
	veth(t, "lan", "wan", "opt")
	k := newKernel(t)
	for _, n := range hookNumbers() {
		want := table(n, "lan", "wan")
		apply(t, k, state.ReplaceTable{Table: want})
		same(t, k, &want)
		apply(t, k, state.ReplaceTable{Table: want})
		same(t, k, &want)

		apply(t, k, state.AddDevices{Flowtable: want.Flowtable, Devices: []string{"opt"}})
		want.Flowtable.Devices = []string{"lan", "opt", "wan"}
		same(t, k, &want)
		apply(t, k, state.AddDevices{Flowtable: want.Flowtable, Devices: []string{"opt", "lan"}})
		same(t, k, &want)

		apply(t, k, state.RemoveDevices{Flowtable: want.Flowtable, Devices: []string{"opt"}})
		want.Flowtable.Devices = []string{"lan", "wan"}
		same(t, k, &want)
		// One that isn't in it must not keep the other from going.
		apply(t, k, state.RemoveDevices{Flowtable: want.Flowtable, Devices: []string{"opt", "lan"}})
		want.Flowtable.Devices = []string{"wan"}
		same(t, k, &want)
		apply(t, k, state.RemoveDevices{Flowtable: want.Flowtable, Devices: []string{"lan"}})
		same(t, k, &want)

		want.Rules = append(slices.Clone(everyRule[:3]), state.Mark(1).When(state.Is(state.KeyIif, "@"+state.EngineAFXDP), state.Is(state.KeyOif, "@"+state.EngineAFXDP)))
		apply(t, k, state.ReplaceRules{Table: want})
		same(t, k, &want)
	}
	apply(t, k, state.DeleteTable{})
	same(t, k, nil)
	apply(t, k, state.DeleteTable{})
	if left := run(t, "nft list ruleset"); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
}

// TestVMNftShowsComments: the owner of the router can read our rules.
func TestVMNftShowsComments(t *testing.T) {
	if !needVM(t) {
		return
	}
	veth(t, "lan", "wan")
	k := newKernel(t)
	want := table(state.NumberIngress, "lan", "wan")
	apply(t, k, state.ReplaceTable{Table: want})
	listed := run(t, "nft list table inet fastpath")
	for _, r := range want.Rules {
		if !strings.Contains(listed, strings.ReplaceAll(r.String(), `"`, "")) &&
			!strings.Contains(listed, "fastpath: "+strings.ReplaceAll(r.String(), `"`, "'")) {
			t.Errorf("%q is not in\n%s", r, listed)
		}
	}
	for _, line := range []string{
		"type filter hook forward priority filter + 10; policy accept;",
		"meta l4proto != { tcp, udp } return",
		"ct mark & 0x40000000 != 0x00000000 return",
		"flow add @ft comment \"fastpath: flow add @ft (generation 0123456789abcdef)\"",
		"counter",
	} {
		if !strings.Contains(listed, line) {
			t.Errorf("no %q in\n%s", line, listed)
		}
	}
	if os.Getenv("FASTPATH_SHOW") != "" {
		t.Log(listed)
	}
}

// TestVMForeignTable: whatever somebody does to our table makes it different
// from the one that is wanted, and replacing it heals it.
func TestVMForeignTable(t *testing.T) {
	if !needVM(t) {
		return
	}
	veth(t, "lan", "wan", "opt")
	k := newKernel(t)
	want := table(state.NumberIngress, "lan", "wan")
	head := "table inet fastpath { flowtable ft { hook ingress priority %P; devices = { lan, wan }; counter; }\n" +
		"chain forward { type filter hook %H priority %C; }\n}"
	shape := func(p, h, c string) string {
		return strings.NewReplacer("%P", p, "%H", h, "%C", c).Replace(head)
	}
	for name, change := range map[string]string{
		"a rule":             "add rule inet fastpath forward accept",
		"a rule's comment":   `add rule inet fastpath forward accept comment "fastpath: nonsense"`,
		"a chain":            "add chain inet fastpath other",
		"a set":              "add set inet fastpath s { type ipv4_addr; }",
		"a second flowtable": "add flowtable inet fastpath g { hook ingress priority 5; devices = { opt }; }",
		"switched off":       "add table inet fastpath { flags dormant; }",
		"policy":             "add chain inet fastpath forward { policy drop; }",
		"flowtable priority": "delete table inet fastpath; " + shape("5", "forward", "10"),
		"chain priority":     "delete table inet fastpath; " + shape("0", "forward", "11"),
		"chain hook":         "delete table inet fastpath; " + shape("0", "input", "10"),
		"empty":              "delete table inet fastpath; table inet fastpath { }",
	} {
		apply(t, k, state.ReplaceTable{Table: want})
		same(t, k, &want)
		load(t, change)
		got := observe(t, k).Table
		if got == nil || reflect.DeepEqual(got, readBack(&want)) {
			t.Errorf("%s: not noticed: %+v", name, got)
		} else if state.SameRules(got.Rules, want.Rules) && slices.Equal(got.Sets, want.Sets) {
			t.Errorf("%s: the rules alone look right", name)
		}
	}
	apply(t, k, state.ReplaceTable{Table: want})
	same(t, k, &want)
}

// TestVMRefusals: what the kernel refuses comes back as one line that names
// the object, and nothing has changed.
func TestVMRefusals(t *testing.T) {
	if !needVM(t) {
		return
	}
	veth(t, "lan", "wan")
	k := newKernel(t)
	want := table(state.NumberIngress, "lan")
	apply(t, k, state.ReplaceTable{Table: want})
	other := want.Flowtable
	other.Number = 7
	for name, c := range map[string]struct {
		step state.Step
		is   error
	}{
		"another hook number on a living flowtable": {state.AddDevices{Flowtable: other, Devices: []string{"wan"}}, unix.EOPNOTSUPP},
		"a hook that isn't there":                   {state.ReplaceTable{Table: table(7, "lan")}, unix.EOPNOTSUPP},
		"a rule for a flowtable that isn't there": {state.ReplaceRules{Table: state.Table{Rules: []state.Rule{
			state.Return.When(state.Is(state.KeyOif, "a-very-long-name-indeed"))}}}, unix.ENAMETOOLONG},
	} {
		err := k.Apply(c.step)
		if !errors.Is(err, c.is) || errors.Is(err, ErrVanished) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		t.Log(err)
		same(t, k, &want)
	}
}

func apply(t *testing.T, k *Kernel, step state.Step) {
	t.Helper()
	if err := k.Apply(step); err != nil {
		t.Fatal(err)
	}
}

// readBack is a table as Observe tells it: of rules it knows the identity.
func readBack(want *state.Table) *state.Table {
	if want == nil {
		return nil
	}
	t := *want
	t.Rules = nil
	for _, r := range want.Rules {
		t.Rules = append(t.Rules, state.Rule{Read: r.Identity()})
	}
	return &t
}

func same(t *testing.T, k *Kernel, want *state.Table) {
	t.Helper()
	if got := observe(t, k).Table; !reflect.DeepEqual(got, readBack(want)) {
		t.Fatalf("the kernel has\n%+v, wanted\n%+v", got, want)
	}
}
