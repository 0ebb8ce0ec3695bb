// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

func TestExplain(t *testing.T) {
	for errno := range meanings {
		for _, err := range []error{errno, fmt.Errorf("wrapped: %w", errno), errors.Join(errno, unix.EIO)} {
			got := Explain(err)
			if strings.Contains(got, "\n") || !strings.Contains(got, fmt.Sprintf("errno %d)", int(errno))) {
				t.Errorf("%d: %q", int(errno), got)
			}
		}
	}
	if got := Explain(unix.EOPNOTSUPP); !strings.Contains(got, "EOPNOTSUPP") {
		t.Errorf("its common name is missing: %q", got)
	}
	if got := Explain(unix.EIO); !strings.Contains(got, "EIO") {
		t.Errorf("an errno without words of ours: %q", got)
	}
	if got := Explain(fmt.Errorf("first this: %w", unix.ENOENT)); !strings.HasPrefix(got, "first this: there is no such thing") {
		t.Errorf("the context is lost: %q", got)
	}
	_, file := os.Open("/nowhere/at/all")
	if err := refused("save", file); errors.Is(err, ErrVanished) || !strings.Contains(err.Error(), "/nowhere/at/all") || kernelErrno(file) != 0 {
		t.Errorf("a file's error: %v", err)
	}
	if got := Explain(errors.New("two\nlines")); got != "two; lines" {
		t.Errorf("two lines: %q", got)
	}
}

func TestErrorKinds(t *testing.T) {
	if refused("look", nil) != nil {
		t.Error("no error became one")
	}
	for _, c := range []struct {
		err  error
		kind error
		text string
	}{
		{unix.EPERM, ErrPermission, "look: not allowed: CAP_NET_ADMIN is missing"},
		{unix.ENODEV, ErrVanished, "look: it is gone, look again"},
		{&refusal{"flowtable", unix.EBUSY}, unix.EBUSY, "look: flowtable: still in use: a rule refers to it, or somebody else holds it (EBUSY, errno 16)"},
	} {
		err := refused("look", c.err)
		if !errors.Is(err, c.kind) || err.Error() != c.text {
			t.Errorf("%v: %q", c.err, err)
		}
		if got := Explain(fmt.Errorf("more: %w", err)); strings.Contains(got, "\n") || got == "" {
			t.Errorf("explained: %q", got)
		}
	}
}

// TestPermission: without CAP_NET_ADMIN each method says so, in one line, and
// nothing has changed.
func TestPermission(t *testing.T) {
	inNamespace(t)
	veth(t, "wan")
	load(t, fw4Ruleset)
	k := newKernel(t)
	must(t, k.storeSaved(savedPorts{link(t, observe(t, k), "wan").Index: {Name: "wan", Offloads: fraglist}}))
	before := run(t, "nft list ruleset")
	drop(t)
	_, look := k.Observe(state.Query{HookNumber: 2})
	_, sample := k.Counters()
	_, flows := k.Flows()
	_, events := k.Watch(context.Background())
	steps := map[string]error{"Observe": look, "Counters": sample, "Flows": flows, "Watch": events, "Cleanup": k.Cleanup()}
	for _, s := range []state.Step{
		state.ReplaceTable{}, state.DeleteTable{}, state.AddDevices{Devices: []string{"wan"}},
		state.RemoveDevices{Devices: []string{"wan"}}, state.ReplaceRules{}, state.AddCheck{Device: "wan"},
		state.RemoveCheck{Device: "wan"}, state.SetOffloads{Port: "wan", Want: plainGRO}, state.RestoreOffloads{Port: "wan"},
	} {
		steps[fmt.Sprintf("%T", s)] = k.Apply(s)
	}
	for name, err := range steps {
		if !errors.Is(err, ErrPermission) {
			t.Errorf("%s: %v", name, err)
		} else if name != "Cleanup" && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than a line: %v", name, err)
		}
	}
	raise(t)
	if after := run(t, "nft list ruleset"); after != before {
		t.Errorf("the ruleset has changed to\n%s", after)
	}
}

// drop takes CAP_NET_ADMIN off this thread, raise gives it back.
func drop(t *testing.T)  { t.Helper(); netAdmin(t, false) }
func raise(t *testing.T) { t.Helper(); netAdmin(t, true) }

func netAdmin(t *testing.T, on bool) {
	t.Helper()
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	must(t, unix.Capget(&h, &caps[0]))
	caps[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	if on {
		caps[0].Effective |= 1 << unix.CAP_NET_ADMIN
	}
	must(t, unix.Capset(&h, &caps[0]))
}
