// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// many is more than one message of the kernel's may name.
const many = 300

// TestVMManyDevices: a flowtable of many devices is installed, read back, added
// to and shrunk like any other.
func TestVMManyDevices(t *testing.T) {
	if !needVM(t) {
		return
	}
	names := dummies(t, many)
	k := newKernel(t)
	want := table(state.NumberIngress, names[:many-20]...)
	apply(t, k, state.ReplaceTable{Table: want})
	same(t, k, &want)
	apply(t, k, state.AddDevices{Flowtable: want.Flowtable, Devices: names})
	want.Flowtable.Devices = names
	same(t, k, &want)
	apply(t, k, state.RemoveDevices{Flowtable: want.Flowtable, Devices: names[10:]})
	want.Flowtable.Devices = names[:10]
	same(t, k, &want)
	var b batch
	b.addToFlowtable(state.TableName, state.FlowtableName, want.Flowtable, names[:devicesPerMessage+1])
	wantErrno(t, k, "256 devices at once", &b, unix.EFBIG, "too many devices")
}

// dummies makes n devices, which come with one call of ip, and gives their
// sorted names.
func dummies(t *testing.T, n int) (names []string) {
	t.Helper()
	var lines strings.Builder
	for i := range n {
		names = append(names, fmt.Sprintf("dummy-%d", i))
		fmt.Fprintf(&lines, "link add name dummy-%d type dummy\n", i)
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(lines.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ip: %v: %s", err, out)
	}
	slices.Sort(names)
	return names
}

// wantErrno commits b, which the kernel has to refuse with errno, and holds the
// line that a user reads against word.
func wantErrno(t *testing.T, k *Kernel, op string, b *batch, errno unix.Errno, word string) {
	t.Helper()
	c, err := k.nfnetlink()
	must(t, err)
	defer c.close()
	err = c.commit(op, b)
	if kernelErrno(err) != errno {
		t.Errorf("%s: %v, want %v", op, err, errno)
		return
	}
	line := refused(op, err).Error()
	t.Log(line)
	if strings.Contains(line, "\n") || !strings.Contains(line, word) || !strings.HasSuffix(line, code(errno)) {
		t.Errorf("%q, want one line with %q and %s", line, word, code(errno))
	}
}
