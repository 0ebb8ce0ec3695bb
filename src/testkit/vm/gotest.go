// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"fastpath/src/testkit"
)

// NeedKernel is Find for a test that needs a VM with this kernel.
func NeedKernel(t *testing.T, name string) Kernel {
	t.Helper()
	_, err := exec.LookPath("qemu-system-x86_64")
	testkit.Need(t, err == nil, "no qemu-system-x86_64")
	k, err := Find(name)
	testkit.Need(t, !errors.Is(err, ErrNoKernel), fmt.Sprint(err))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// EachKernel runs test as a sub-test for each of Kernels.
func EachKernel(t *testing.T, test func(t *testing.T, k Kernel)) {
	t.Helper()
	for _, name := range Kernels() {
		t.Run(name, func(t *testing.T) { test(t, NeedKernel(t, name)) })
	}
}

// GoTest builds the guest tests of pkg ("./src/itest/topo"; its test files
// with the build tag guest), runs those that match the regular expression run
// in the VM, and reports each as a sub-test of t. flags are more flags for the
// test binary. cfg.Args is GoTest's own.
func GoTest(t *testing.T, cfg Config, pkg, run string, flags ...string) {
	t.Helper()
	prog := filepath.Join(t.TempDir(), "guest.test")
	if err := GoTestBuild(prog, pkg); err != nil {
		t.Fatal(err)
	}
	cfg.Files = maps.Clone(cfg.Files)
	if cfg.Files == nil {
		cfg.Files = map[string]string{}
	}
	cfg.Files["/job/guest.test"] = prog
	// The VM has a time limit; go test's own would only hide the console.
	cfg.Args = append([]string{"/job/guest.test", "-test.v", "-test.timeout=0", "-test.run=" + run}, flags...)
	cfg.Env = append(cfg.Env, "MUSTRUN="+os.Getenv("MUSTRUN"))
	guest := &guestLog{t: t}
	status, err := Run(t.Context(), cfg, guest)
	guest.report(status)
	if err != nil {
		t.Error(err)
	}
}

// guestLog receives the output of a test binary.
type guestLog struct {
	t       *testing.T
	results []guestResult
}

type guestResult struct{ name, verdict string }

var resultLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) `)

// Write receives whole lines, as Run hands them over.
func (g *guestLog) Write(p []byte) (int, error) {
	if m := resultLine.FindSubmatch(p); m != nil {
		g.results = append(g.results, guestResult{name: string(m[2]), verdict: string(m[1])})
	}
	return g.t.Output().Write(p)
}

// report makes each result a sub-test, and fails when the binary says that
// something failed that no result tells of.
func (g *guestLog) report(status int) {
	g.t.Helper()
	failed := false
	for _, r := range g.results {
		failed = failed || r.verdict == "FAIL"
		g.t.Run(r.name, func(t *testing.T) {
			switch r.verdict {
			case "FAIL":
				t.Error("failed in the VM, see its output")
			case "SKIP":
				testkit.Need(t, false, "skipped in the VM, see its output")
			}
		})
	}
	if len(g.results) == 0 {
		g.t.Error("no test ran in the VM")
	}
	if status != 0 && !failed {
		g.t.Errorf("the tests in the VM ended with status %d", status)
	}
}
