// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fastpath/src/state"
)

// TestPlanWithoutList: of a list that can't be read, plan says what run would do;
// while the daemon runs, which may have read it, only that it can't tell.
func TestPlanWithoutList(t *testing.T) {
	p := newProc(t)
	list := filepath.Join(p.config, "list")
	text := good + ports + "config drop 'd'\n\toption file '" + list + "'\n"
	for name, text := range map[string]string{list: "192.0.2.1\n", filepath.Join(p.config, "fastpath"): text} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.start()
	p.settled(t)
	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	plan := func() result { return p.inside("plan", "--config", p.config, "--run", p.run) }
	if r := plan(); r.code != exitOK || r.stdout != "nothing to do\n" || !strings.Contains(r.stderr, "can't tell") {
		t.Errorf("with the daemon: %+v", r)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if r := plan(); r.code != exitSteps || !strings.Contains(r.stdout, state.RemoveDrop{}.String()) || strings.Contains(r.stderr, "can't tell") {
		t.Errorf("without it: %+v", r)
	}
}
