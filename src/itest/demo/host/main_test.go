// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"fastpath/src/testkit/vm"
)

// What the environment may ask for, and what is answered when it can't be had.
func TestReadShow(t *testing.T) {
	for _, c := range []struct {
		scenario, engine, wan string
		want                  show
		err                   string // "": none
	}{
		{want: show{wan: "pppoe"}},
		{engine: "xdp", wan: "dslite", want: show{engine: "xdp", wan: "dslite"}},
		{scenario: "sqm", want: show{scenario: "sqm"}},
		{scenario: "tow-wans", err: "two-wans"},
		{scenario: "sqm", engine: "xdp", err: "leave ENGINE and WAN out"},
		{scenario: "dslite", wan: "dslite", err: "leave ENGINE and WAN out"},
		{engine: "dpdk", err: "want xdp or afxdp"},
		{wan: "cable", err: "want pppoe or dslite"},
		{wan: "dslite", err: "SCENARIO=dslite"},
	} {
		t.Setenv("SCENARIO", c.scenario)
		t.Setenv("ENGINE", c.engine)
		t.Setenv("WAN", c.wan)
		got, err := readShow()
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || err == nil && got != c.want {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}

// One page is shown for good; the others take the same way.
func TestRoaming(t *testing.T) {
	vm.NeedKernel(t, "6.12")
	prog := filepath.Join(t.TempDir(), "fastpath")
	if err := vm.GoBuild(prog, "./src/cmd/fastpath"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SCENARIO", "roaming")
	t.Setenv("ENGINE", "")
	t.Setenv("WAN", "")
	t.Setenv("KERNEL", "6.12")
	if err := run(t.Context(), prog); err != nil {
		t.Error(err)
	}
}
