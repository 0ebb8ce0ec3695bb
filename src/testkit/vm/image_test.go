// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fastpath/src/testkit"
)

// The host's cpio reads what we write.
func TestArchive(t *testing.T) {
	_, err := exec.LookPath("cpio")
	testkit.Need(t, err == nil, "no cpio")
	src := filepath.Join(t.TempDir(), "src")
	if err := os.WriteFile(src, []byte("from the host"), 0o755); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	a := newArchive(&b)
	a.bytes("/a/b/empty", 0o600, nil)
	a.bytes("a/b/seven", 0o644, []byte("1234567"))
	a.file("/a/prog", src)
	a.symlink("/link", "a/prog")
	a.symlink("/link", "twice is once")
	a.dir("/a/b")
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command("cpio", "--extract", "--no-absolute-filenames")
	cmd.Dir, cmd.Stdin = dir, &b
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cpio: %v: %s", err, out)
	}
	for name, want := range map[string]string{"a/b/empty": "", "a/b/seven": "1234567", "link": "from the host"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "a/prog")); err != nil || info.Mode() != 0o755 {
		t.Errorf("a/prog: %v, %v; want 0755", info.Mode(), err)
	}
}

func TestArchiveErrors(t *testing.T) {
	twice := newArchive(&bytes.Buffer{})
	twice.bytes("/x", 0o600, nil)
	twice.bytes("x", 0o600, nil)
	if err := twice.close(); err == nil {
		t.Error("the same file twice: no error")
	}
	missing := newArchive(&bytes.Buffer{})
	missing.file("/x", filepath.Join(t.TempDir(), "nothing"))
	if err := missing.close(); !os.IsNotExist(err) {
		t.Errorf("a missing file: error %v", err)
	}
}

// Each module comes after all that it depends on, and only once.
func TestFindModules(t *testing.T) {
	for _, name := range []string{"6.1", "6.12"} {
		k, err := Find(name)
		testkit.Need(t, err == nil, fmt.Sprint(err))
		modules, err := findModules(k.Modules, DefaultModules())
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]int{}
		for i, m := range modules {
			if _, twice := at[m.name]; twice {
				t.Errorf("%s: %s twice", name, m.name)
			}
			at[m.name] = i
		}
		for i, m := range modules {
			depends, err := m.depends()
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range depends {
				if j, ok := at[d]; !ok || j > i {
					t.Errorf("%s: %s needs %s, which isn't before it", name, m.name, d)
				}
			}
		}
		for _, must := range []string{"pppoe", "nft_flow_offload", "nf_flow_table", "8021q", "virtio_net"} {
			if _, ok := at[must]; !ok {
				t.Errorf("%s: no %s", name, must)
			}
		}
	}
	if _, err := findModules(t.TempDir(), DefaultModules()); err == nil {
		t.Error("a folder without modules: no error")
	}
}

// The console hands on whole lines and picks out the result.
func TestConsole(t *testing.T) {
	var out bytes.Buffer
	c := &console{out: &out}
	text := "one\r\ntwo\nVM-RESULT status=x warnings=0\nVM-RESULT status=3 warnings=1\r\nPower down\n"
	for chunk := range slices.Chunk([]byte(text), 5) {
		c.Write(chunk)
	}
	c.flush()
	if want := "one\ntwo\nVM-RESULT status=x warnings=0\n"; out.String() != want {
		t.Errorf("output %q, want %q", out.String(), want)
	}
	if c.result == nil || c.result.Status != 3 || c.result.Warnings != 1 {
		t.Errorf("result %+v", c.result)
	}
	c = &console{out: &out}
	c.Write([]byte(strings.Repeat("line\n", 3*keepLines) + "no end"))
	c.flush()
	if len(c.last) != keepLines || c.last[keepLines-1] != "no end" || c.result != nil {
		t.Errorf("%d last lines, the last is %q, result %v", len(c.last), c.last[len(c.last)-1], c.result)
	}
}
