// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMeddling: whatever somebody does to our table, it is soon as it was, its
// flow is carried again, and then there is nothing to do.
func TestMeddling(t *testing.T) {
	p, conn := newEngineProc(t)
	p.start()
	carried := func() bool { return len(p.flows("engine", "xdp")) == 1 }
	table := func() string { return p.ns.Run(t, "nft -s list table inet fastpath 2>&1 || true") }
	p.talk(conn, "the engine's flow", carried)
	before := table()
	for _, meddle := range []string{
		"nft flush ruleset",
		"nft delete table inet fastpath",
		"nft flush table inet fastpath",
		"nft 'add table inet fastpath { flags dormant; }'",
		"nft add chain inet fastpath foreign",
		"nft 'add chain inet fastpath grab { type filter hook forward priority 0; policy drop; }'",
		"nft insert rule inet fastpath forward drop",
		"nft 'add set inet fastpath mine { type ipv4_addr; }'",
		"nft delete rule inet fastpath forward handle $(nft -a list table inet fastpath | sed -n 's/.*counter.* # handle //p' | head -1)",
	} {
		p.ns.Run(t, meddle)
		start := time.Now()
		p.eventually(meddle+": the table as it was", func() bool { return table() == before })
		t.Logf("%s: undone after %v", meddle, time.Since(start))
		p.talk(conn, meddle+": its flow", carried)
		p.settled(t)
	}
}

// settled waits until there is nothing to do.
func (p *proc) settled(t *testing.T) {
	t.Helper()
	var r result
	for start := time.Now(); time.Since(start) < patience; time.Sleep(50 * time.Millisecond) {
		if r = p.inside("plan", "--config", p.config, "--run", p.run); r.code == exitOK {
			return
		}
	}
	t.Fatalf("there is always something to do: %+v; log:\n%s", r, p.log.String())
}

// TestSavedHasNoRoom: where what a port had can't be saved, the port isn't changed,
// and status says why; with room again it is.
func TestSavedHasNoRoom(t *testing.T) {
	p := newProc(t)
	if err := unix.Mount("full", p.run, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(p.run, unix.MNT_DETACH) })
	p.manager.Close()
	p.listen()
	p.start()
	p.ns.Run(t, "ethtool -K p0 gro on")
	before := p.ns.Run(t, "ethtool -k p0")
	ballast := filepath.Join(p.run, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk isn't full")
	}
	text := good + strings.Replace(ports, "'p0'", "'p0'\n\toption receive 'fraglist'", 1)
	if err := os.WriteFile(filepath.Join(p.config, "fastpath"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.eventually("the full disk is said", func() bool {
		return strings.Contains(p.inside("status", "--run", p.run).stdout, "set p0: rx-gro on, rx-gro-list on, ")
	})
	said := p.inside("status", "--run", p.run).stdout
	if !strings.Contains(said, "the disk is full (ENOSPC, errno 28)") || strings.Contains(said, "panic") {
		t.Errorf("status: %s", said)
	}
	if now := p.ns.Run(t, "ethtool -k p0"); now != before {
		t.Errorf("p0 was changed, though nothing could be saved:\n%s", now)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	p.eventually("p0 is set", func() bool { return strings.Contains(p.ns.Run(t, "ethtool -k p0"), "rx-gro-list: on") })
	p.signal(syscall.SIGTERM)
	if code := p.ended(); code != exitOK || p.ns.Run(t, "ethtool -k p0") != before {
		t.Errorf("stopped with %d; p0 is\n%s\nlog:\n%s", code, p.ns.Run(t, "ethtool -k p0"), p.log.String())
	}
}

func (p *proc) eventually(what string, ok func() bool) {
	p.t.Helper()
	for start := time.Now(); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > patience {
			p.t.Fatalf("not within %v: %s; log:\n%s", patience, what, p.log.String())
		}
	}
}

// TestFight: a script that switches a feature back whenever it is set gets no
// busy daemon for it. It is told in status, and set when the script has ended.
func TestFight(t *testing.T) {
	p := newProc(t)
	text := good + strings.Replace(ports, "'p0'", "'p0'\n\toption receive 'fraglist'", 1)
	if err := os.WriteFile(filepath.Join(p.config, "fastpath"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p.start()
	before, start := p.document(), time.Now()
	p.ns.Run(t, "for i in $(seq 100); do ethtool -K p0 rx-gro-list off; sleep 0.03; done")
	said := p.document()
	took := time.Since(start)
	if !strings.Contains(strings.Join(said.Look.Problems, "\n"), "found undone") {
		t.Errorf("problems %q; log:\n%s", said.Look.Problems, p.log.String())
	}
	// At most one each 100 ms until it is known to be a fight, then one a second.
	if looks, most := said.Look.Count-before.Look.Count, uint64(took/time.Second)+5; looks > most {
		t.Errorf("%d looks in %v, want at most %d", looks, took, most)
	}
	p.eventually("p0 is set", func() bool { return strings.Contains(p.ns.Run(t, "ethtool -k p0"), "rx-gro-list: on") })
	p.settled(t)
}

// TestReadOnlyRunDir: nothing is done without a place for what must be saved.
func TestReadOnlyRunDir(t *testing.T) {
	p := newProc(t)
	if err := unix.Mount("ro", p.run, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(p.run, unix.MNT_DETACH) })
	p.inside("run", "--config", p.config, "--run", p.run).oneLine(t, exitError, "read-only file system")
	p.inside("cleanup", "--run", p.run).oneLine(t, exitError, "read-only file system")
}
