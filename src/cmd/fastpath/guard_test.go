// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestGuard goes through boots; each ends with a crash unless it is proven.
func TestGuard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fastpath", "unproven")
	for _, c := range []struct {
		boots   string // one letter each, a capital one is proven; the last one is asked
		passive bool
	}{
		{"a", false},
		{"ab", false},
		{"abc", false},
		{"abcd", true},
		{"abcde", false}, // after a passive boot
		{"aaaaaa", false},
		{"abccccc", false},
		{"abCd", false},
		{"abCdef", false},
		{"abCdefg", true},
	} {
		os.Remove(path)
		var passive string
		for _, boot := range c.boots {
			g := guard{path, strings.ToLower(string(boot))}
			var err error
			if passive, err = g.arm(); err != nil {
				t.Fatal(err)
			}
			if boot < 'a' {
				if err := g.prove(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if (passive != "") != c.passive || strings.Contains(passive, "\n") {
			t.Errorf("boots %s: passive is %q, want %v", c.boots, passive, c.passive)
		}
	}
}

// TestGuardWithoutDisk: a mark that can't be read is none, one that can't be
// written is said, and both keep nothing from being accelerated.
func TestGuardWithoutDisk(t *testing.T) {
	dir := t.TempDir()
	g := guard{filepath.Join(dir, "unproven"), "a"}
	for _, text := range []string{"", "nonsense", "9\n", "x a\n"} {
		if err := os.WriteFile(g.path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if passive, err := g.arm(); passive != "" || err != nil {
			t.Errorf("%q: %q, %v", text, passive, err)
		}
	}
	if passive, err := (guard{"/proc/fastpath/unproven", "a"}).arm(); passive != "" || err == nil {
		t.Errorf("no place to write: %q, %v", passive, err)
	}
}

// TestPassive: a router that has gone down too often is left alone, and says
// why; the next start of the daemon tries again, and an orderly end leaves no mark.
func TestPassive(t *testing.T) {
	p := newProc(t)
	text := good + strings.ReplaceAll(ports, "option device", "option receive 'fraglist'\n\toption device")
	if err := os.WriteFile(filepath.Join(p.config, "fastpath"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	mark := newGuard(p.config).path
	if err := os.MkdirAll(filepath.Dir(mark), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mark, []byte("2 another-boot\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	set := func() bool { return strings.Contains(p.ns.Run(t, "ethtool -k p0"), "rx-gro-list: on") }
	p.start()
	d := p.document()
	if set() || !strings.Contains(d.Report.HookReason, "went down 3 times") || d.Passive != d.Report.HookReason {
		t.Errorf("not passive: %+v", d.Report)
	}
	p.settled(t)
	p.signal(syscall.SIGTERM)
	p.ended()
	p.start()
	if !set() || p.document().Passive != "" {
		t.Errorf("still passive: %+v", p.document().Report)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("no mark while it runs: %v", err)
	}
	p.signal(syscall.SIGTERM)
	p.ended()
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Errorf("a mark after an orderly end: %v", err)
	}
}
