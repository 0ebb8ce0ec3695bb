// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"fastpath/src/state"
)

var errInjected = errors.New("injected")

// action is one call of the package's API.
type action struct {
	name string
	do   func() error
}

func applied(k *Kernel, steps ...state.Step) (list []action) {
	for _, s := range steps {
		list = append(list, action{fmt.Sprintf("%T", s), func() error { return k.Apply(s) }})
	}
	return list
}

// snapshot is everything that a step may change.
func snapshot(t *testing.T, k *Kernel, ports ...string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(run(t, "nft list ruleset"))
	for _, p := range ports {
		fmt.Fprintln(&b, p, offloadsOf(t, k, p))
	}
	saved, _ := os.ReadFile(k.savedPath())
	b.Write(saved)
	return b.String()
}

// failEachCall does the actions again and again, from the same beginning; each
// time one more of the calls to the kernel fails, once. The action that hits
// it must say so in one line that names the cause, must have changed nothing,
// and must succeed when it is simply done again.
func failEachCall(t *testing.T, k *Kernel, ports []string, actions []action) {
	t.Helper()
	for n := 0; ; n++ {
		calls, failed := 0, ""
		k.trial, k.features = trial{}, featureBits{}
		for _, a := range actions {
			before := snapshot(t, k, ports...)
			k.fault = func(call string) error {
				calls++
				if calls == n+1 {
					failed = call
					return errInjected
				}
				return nil
			}
			err := a.do()
			k.fault = nil
			if failed == "" {
				must(t, err)
				continue
			}
			if tolerated(failed) {
				must(t, err)
				break
			}
			if !errors.Is(err, errInjected) {
				t.Errorf("%s, while %q failed: %v", a.name, failed, err)
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, while %q failed: more than a line: %v", a.name, failed, err)
			}
			if after := snapshot(t, k, ports...); after != before && !halfRestored(a.name, failed) {
				t.Errorf("%s, while %q failed, left\n%s\nof\n%s", a.name, failed, after, before)
			}
			if err := a.do(); err != nil {
				t.Errorf("%s, done again after %q had failed: %v", a.name, failed, err)
			}
			break
		}
		must(t, k.Cleanup())
		if failed == "" {
			t.Logf("each of %d calls failed once", n)
			return
		}
	}
}

// tolerated: a look goes on without netifd, a list of flows without a route.
func tolerated(call string) bool { return call == "ask ubus" || call == "look up a route" }

// halfRestored: the port has its own settings back, only saved.json could not
// forget it. The other order could lose them.
func halfRestored(action, call string) bool {
	return action == "state.RestoreOffloads" && call == "write saved.json"
}

func TestFailEachCall(t *testing.T) {
	inNamespace(t)
	veth(t, "lan", "wan")
	load(t, fw4Ruleset)
	k := newKernel(t)
	actions := append([]action{
		{"Observe", func() error { _, err := k.Observe(state.Query{HookNumber: 2}); return err }},
		{"Watch", func() error {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			_, err := k.Watch(ctx)
			return err
		}},
	}, applied(k,
		state.AddCheck{Device: "lan"}, state.AddCheck{Device: "wan"},
		state.SetOffloads{Port: "wan", Want: fraglist},
		state.SetOffloads{Port: "wan", Want: plainGRO})...)
	actions = append(actions, applied(k,
		state.SetSysctl{Name: state.SysctlAcct, Value: "1"}, state.RestoreSysctl{Name: state.SysctlAcct, Saved: "0"},
		state.ReplaceTable{Table: engineTable()},
		state.ReplaceRules{Table: engineTable()}, state.ReplaceTable{Table: policyTable()}, state.ReplaceTable{Table: policyTable()},
		state.ReplaceRules{Table: policyTable()})...)
	actions = append(actions,
		action{"InSet", func() error { _, err := k.InSet("games", netip.MustParseAddr("192.0.2.1")); return err }},
		applied(k, state.DeleteTable{})[0])
	actions = append(actions,
		action{"Counters", func() error { _, err := k.Counters(); return err }},
		action{"Flows", func() error { _, err := k.Flows(); return err }})
	actions = append(actions, applied(k,
		state.RestoreOffloads{Port: "wan"}, state.RemoveCheck{Device: "lan"}, state.RemoveCheck{Device: "wan"})...)
	failEachCall(t, k, []string{"lan", "wan"}, actions)
}

func TestVMFailEachCall(t *testing.T) {
	if !needVM(t) {
		return
	}
	veth(t, "lan", "wan")
	k := newKernel(t)
	want := table(state.NumberIngress, "lan")
	more := want
	more.Rules = want.Rules[:3]
	failEachCall(t, k, nil, append(applied(k,
		state.ReplaceTable{Table: want},
		state.AddDevices{Flowtable: want.Flowtable, Devices: []string{"wan"}},
		state.ReplaceRules{Table: more},
		state.RemoveDevices{Flowtable: want.Flowtable, Devices: []string{"wan", "gone"}}),
		action{"Observe", func() error { _, err := k.Observe(state.Query{HookNumber: 2}); return err }},
		applied(k, state.DeleteTable{})[0]))
}

// TestCleanupFails: one thing that can't be cleaned does not keep the others.
func TestCleanupFails(t *testing.T) {
	inNamespace(t)
	veth(t, "lan", "wan")
	k := newKernel(t)
	apply(t, k, state.AddCheck{Device: "lan"})
	apply(t, k, state.SetOffloads{Port: "wan", Want: fraglist})
	apply(t, k, state.SetOffloads{Port: "lan", Want: fraglist})
	failed := false
	k.fault = func(call string) error {
		if call == "set a port's features" && !failed {
			failed = true
			return errInjected
		}
		return nil
	}
	if err := k.Cleanup(); !errors.Is(err, errInjected) || !strings.Contains(err.Error(), "lan") {
		t.Errorf("cleanup: %v", err)
	}
	k.fault = nil
	o := observe(t, k)
	if len(o.Checks) != 0 || len(o.Saved) != 1 || link(t, o, "wan").Feature.GROList.On {
		t.Errorf("after a cleanup that failed for lan: checks %v, saved %v", o.Checks, o.Saved)
	}
	must(t, k.Cleanup())
	must(t, k.Cleanup())
	if o := observe(t, k); len(o.Saved) != 0 || link(t, o, "lan").Feature.GROList.On {
		t.Errorf("after the second cleanup: %+v", o)
	}
}
