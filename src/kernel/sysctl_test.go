// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// acct is nf_conntrack_acct of the test's namespace.
func acct(t *testing.T, k *Kernel) string {
	t.Helper()
	s := k.sysctls()[state.SysctlAcct]
	if s.Fixed != "" {
		t.Fatalf("%s: %s", state.SysctlAcct, s.Fixed)
	}
	return s.Value
}

func setAcct(t *testing.T, value string) {
	t.Helper()
	must(t, os.WriteFile(sysctlPath(state.SysctlAcct), []byte(value), 0))
}

func TestSysctl(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	set, restore := state.SetSysctl{Name: state.SysctlAcct, Value: "1"}, state.RestoreSysctl{Name: state.SysctlAcct, Saved: "0"}
	saved := func(want string) {
		t.Helper()
		o := observe(t, k)
		if was, ok := o.SavedSysctls[state.SysctlAcct]; was != want || ok != (want != "") {
			t.Fatalf("saved %q, want %q", was, want)
		}
	}
	setAcct(t, "1")
	apply(t, k, set) // is so already
	saved("")
	setAcct(t, "0")
	apply(t, k, set)
	saved("0")
	apply(t, k, restore)
	if saved(""); acct(t, k) != "0" {
		t.Error("not given back")
	}
	apply(t, k, restore) // nothing is owed any more
	// Somebody changes it meanwhile: it is his, and nothing is owed.
	apply(t, k, set)
	setAcct(t, "0")
	apply(t, k, restore)
	saved("")
	setAcct(t, "1")
	if apply(t, k, restore); acct(t, k) != "1" {
		t.Error("somebody's value was changed")
	}
	// What a run leaves behind, the next one gives back, with ports or without.
	setAcct(t, "0")
	apply(t, k, set)
	next, err := New(k.runDir, k.log)
	must(t, err)
	defer next.Close()
	must(t, next.storeSaved(savedPorts{9999: {Name: "gone"}}))
	must(t, next.Cleanup())
	if acct(t, k) != "0" {
		t.Error("not given back by the next run")
	}
	if _, err := os.Stat(k.savedPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("saved.json is still there: %v", err)
	}
}

// TestSysctlFails: a value that can't be saved isn't changed, and one that can't
// be changed says so.
func TestSysctlFails(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	set := state.SetSysctl{Name: state.SysctlAcct, Value: "1"}
	setAcct(t, "0")
	for _, call := range []string{"write saved.json", "write sysctl"} {
		k.fault = func(c string) error {
			if c == call {
				return unix.EROFS
			}
			return nil
		}
		if err := k.Apply(set); !errors.Is(err, unix.EROFS) || !strings.HasPrefix(err.Error(), set.String()) {
			t.Errorf("%s: %v", call, err)
		}
		if acct(t, k) != "0" {
			t.Errorf("%s failed, and the value is changed", call)
		}
	}
	k.fault = nil
	must(t, k.Cleanup())
	must(t, unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, ""))
	must(t, unix.Mount("", "/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	s := observe(t, k).Sysctls[state.SysctlAcct]
	if s.Value != "0" || !strings.Contains(s.Fixed, "errno 30") {
		t.Errorf("read-only: %+v", s)
	}
	if err := k.Apply(set); !errors.Is(err, unix.EROFS) {
		t.Errorf("read-only: %v", err)
	}
	if s := readSysctl(t.TempDir() + "/none"); !strings.Contains(s.Fixed, "errno 2") {
		t.Errorf("missing: %+v", s)
	}
}

// TestPacketsSwitchAccounting: a rule that matches the number of packets makes
// the kernel count by itself (nft_ct_get_init), and leaves it on. So the value is
// saved before there is such a rule.
func TestPacketsSwitchAccounting(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	observe(t, k)
	setAcct(t, "0")
	apply(t, k, state.ReplaceTable{Table: state.Table{Rules: []state.Rule{state.Return.When(state.Is(state.KeyPackets, "5"))}}})
	apply(t, k, state.DeleteTable{})
	if acct(t, k) != "1" {
		t.Error("the kernel doesn't switch it on: the order of the steps needs no care any more")
	}
}
