// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

// inNamespace moves the test into a network namespace of its own, with a /sys
// that shows it. Its thread ends with the test, and the namespace with it.
func inNamespace(t testing.TB) {
	t.Helper()
	testkit.Need(t, os.Geteuid() == 0, "needs root")
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS)
	testkit.Need(t, err == nil, "needs a network namespace")
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount("sysfs", "/sys", "sysfs", 0, ""))
	run(t, "ip link set lo up")
}

// needVM: the test needs a kernel with flowtables; the VM's runner says so.
func needVM(t *testing.T) bool {
	t.Helper()
	if os.Getenv("FASTPATH_VM") == "1" {
		inNamespace(t)
		return true
	}
	t.Log("runs in the VM tests")
	return false
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a command line in the test's namespace and gives its output.
func run(t testing.TB, line string) string {
	t.Helper()
	out, err := shell(line)
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

func shell(line string) (string, error) {
	field := strings.Fields(line)
	out, err := exec.Command(field[0], field[1:]...).CombinedOutput()
	return string(out), err
}

// load hands a ruleset to nft.
func load(t testing.TB, ruleset string) {
	t.Helper()
	testkit.Need(t, has("nft"), "needs nft")
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(ruleset)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

func newKernel(t testing.TB) *Kernel {
	t.Helper()
	k, err := New(t.TempDir(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	must(t, err)
	t.Cleanup(func() { k.Close() })
	return k
}

func observe(t testing.TB, k *Kernel) state.Observed {
	t.Helper()
	o, err := k.Observe(state.Query{HookNumber: 2})
	must(t, err)
	return o
}

func link(t testing.TB, o state.Observed, name string) state.Link {
	t.Helper()
	for _, l := range o.Links {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("no link %s in %+v", name, o.Links)
	return state.Link{}
}
