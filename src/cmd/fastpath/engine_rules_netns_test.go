// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fastpath/src/testkit"
)

// What the rules before gave to an engine the new rules judge again: a flow
// that a new policy keeps leaves the engine, and another bit of the mark leaves
// nothing of the old one behind.
func TestEngineRulesChange(t *testing.T) {
	_, err := exec.LookPath("conntrack")
	testkit.Need(t, err == nil, "needs conntrack")
	p, conn := newEngineProc(t)
	file := filepath.Join(p.config, "fastpath")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	reload := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		p.signal(syscall.SIGHUP)
	}
	marked := func(bit string) bool {
		return strings.Contains(p.ns.Run(t, "conntrack -L --mark "+bit+"/"+bit+" 2>/dev/null"), "udp")
	}
	carried := func() bool { return len(p.flows("engine", "xdp", "port", "2000")) == 1 }
	p.start()
	p.talk(conn, "the engine's flow", carried)

	reload(string(text) + "config policy\n\toption action 'bypass'\n\toption proto 'udp'\n\toption dest_port '2000'\n")
	p.talk(conn, "the policy holds", func() bool {
		r := p.inside("explain", "--run", p.run, "udp", client, server)
		return !carried() && !marked("0x40000000") && r.code == exitSlow && strings.Contains(r.stdout, "policy")
	})

	reload(string(text))
	p.talk(conn, "the flow is taken again", carried)

	reload(strings.Replace(string(text), "config fastpath 'main'\n", "config fastpath 'main'\n\toption ct_mark '0x20000000'\n", 1))
	p.talk(conn, "the other bit", func() bool { return marked("0x20000000") && carried() })
	if marked("0x40000000") {
		t.Error("the old bit stays")
	}
	if err := os.WriteFile(file, text, 0o644); err != nil { // not told yet
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	if code := p.ended(); code != 0 || marked("0x20000000") || marked("0x40000000") {
		t.Errorf("stopped with %d, and a bit stays; log:\n%s", code, p.log.String())
	}
}
