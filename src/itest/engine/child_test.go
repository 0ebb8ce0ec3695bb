// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"fastpath/src/testkit"

	"golang.org/x/sys/unix"
)

// The forwarding process is this test binary again: it can be killed and stopped.

const childEnv = "FASTPATH_ENGINE_CHILD"

// What the child does to itself before it starts.
const (
	whole     = "whole"
	noCaps    = "without capabilities"
	noSockets = "without AF_XDP"
	garbage   = "with garbage"
)

func TestMain(m *testing.M) {
	how := os.Getenv(childEnv)
	if how == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // what is dropped now is dropped for Start
	err := spoil(how)
	if err == nil {
		err = serve(os.Stdin, os.Stdout, beside[how])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// beside is what runs beside the router.
var beside = map[string]func(*Router){
	whole: func(*Router) {}, noCaps: func(*Router) {}, noSockets: func(*Router) {},
	garbage: litter,
}

func spoil(how string) error {
	switch how {
	case noCaps:
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		return unix.Capset(&header, &none[0])
	case noSockets:
		return testkit.DenySocket(unix.AF_XDP, unix.EAFNOSUPPORT)
	}
	return nil
}

// process is a child that ends with the test at the latest.
type process struct {
	*Process
	t *testing.T
}

// launch starts a child in the namespace. If it can't start, that is its error.
func launch(t *testing.T, n *testkit.Netns, how string, spec Spec) (process, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := n.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+how)
	p, err := Launch(cmd, spec)
	if err == nil {
		t.Cleanup(p.Kill)
	}
	return process{p, t}, err
}

func (p process) signal(s unix.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func (p process) finish() Stats {
	p.t.Helper()
	st, err := p.Finish()
	if err != nil {
		p.t.Error(err)
	}
	return st
}
