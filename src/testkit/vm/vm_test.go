// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// Programs, applets, files, NICs, arguments, environment, output and status
// all arrive.
func TestRun(t *testing.T) {
	EachKernel(t, boots)
}

func boots(t *testing.T, k Kernel) {
	var out bytes.Buffer
	start := time.Now()
	status, err := Run(t.Context(), Config{
		Kernel:   k,
		NICs:     []int{0, 0},
		Programs: []string{"busybox", "sh", "ip", "nft"},
		Files:    map[string]string{"/etc/given": "vm_test.go"},
		Env:      []string{"GIVEN=yes"},
		Args: []string{"sh", "-ec", `
			uname -r; echo "given $GIVEN"; head -n 1 /etc/given
			ip -br link show lo; cat /sys/class/net/eth0/address /sys/class/net/eth1/address
			nft 'add table inet x; add chain inet x f { type filter hook forward priority 0; }; add rule inet x f ct state established reject'
			nft list tables; exit 7`},
	}, &out)
	t.Logf("boot to power-off: %.1f s\n%s", time.Since(start).Seconds(), &out)
	if err != nil || status != 7 {
		t.Fatalf("status %d, error %v; want 7 and none", status, err)
	}
	for _, want := range []string{"given yes\n", "SPDX-License-Identifier", NICAddr(0), NICAddr(1), "LOOPBACK,UP", "table inet x\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q", want)
		}
	}
}

// The ways a VM can end badly are told apart. They are init's and the host's
// doing: one kernel will do.
func TestRunFailures(t *testing.T) {
	k := NeedKernel(t, Kernels()[0])
	for _, c := range []struct {
		name, script string
		timeout      time.Duration
		check        func(status int, err error, out string) bool
	}{
		{"signal", "kill -9 $$", 0, func(s int, err error, _ string) bool { return err == nil && s == 128+9 }},
		{"panic", "echo before; echo c > /proc/sysrq-trigger", 0, func(_ int, err error, out string) bool {
			var died *DiedError
			return errors.As(err, &died) && strings.Contains(strings.Join(died.Last, "\n"), "Call Trace") && strings.Contains(out, "before")
		}},
		{"time out", "sleep 10000", 20 * time.Second, func(_ int, err error, _ string) bool {
			var died *DiedError
			return errors.As(err, &died) && errors.Is(err, context.DeadlineExceeded)
		}},
		{"kernel bug", "echo '<4>WARNING: CPU: 0 PID: 1 at made/up.c' > /dev/kmsg", 0, func(_ int, err error, _ string) bool {
			var warn *WarningsError
			return errors.As(err, &warn) && warn.Count == 1
		}},
		{"no such program", "", 0, func(s int, err error, _ string) bool { return err == nil && s == 125 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"sh", "-c", c.script}
			if c.script == "" {
				args = []string{"/job/nothing"}
			}
			var out bytes.Buffer
			status, err := Run(t.Context(), Config{
				Kernel: k, Modules: []string{}, Programs: []string{"busybox"}, Args: args, Timeout: c.timeout,
			}, &out)
			if !c.check(status, err, out.String()) {
				t.Errorf("status %d, error %v\n%s", status, err, &out)
			}
		})
	}
}

// What Find says of kernels that aren't there, and of others.
func TestFind(t *testing.T) {
	t.Setenv("EARLY_KERNEL", "/nonexistent/bzImage")
	for _, name := range []string{"early", "/nonexistent/vmlinuz", "5.4"} {
		if _, err := Find(name); !errors.Is(err, ErrNoKernel) {
			t.Errorf("Find(%q): error %v, want ErrNoKernel", name, err)
		}
	}
	t.Setenv("KERNEL", "vm_test.go")
	t.Setenv("MODULES", "/some/where")
	k, err := Find(Kernels()[0])
	if want := (Kernel{Name: "vm_test.go", Image: "vm_test.go", Modules: "/some/where"}); err != nil || k != want || len(Kernels()) != 1 {
		t.Errorf("KERNEL=vm_test.go: %+v, %v, want %+v", k, err, want)
	}
}
