// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An entry is the control file with three fields more, an empty line between two.
func TestIndex(t *testing.T) {
	dir := t.TempDir()
	ipk := build(t)
	for _, arch := range []string{"mips_24kc", "x86_64"} {
		if err := os.WriteFile(filepath.Join(dir, "fastpath_1.2.3-r4_"+arch+".ipk"), ipk, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := run([]string{"index", dir}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "Packages"))
	if err != nil {
		t.Fatal(err)
	}
	_, packed := unpack(t, ipk)
	control := string(find(t, readTarGz(t, packed), "./control").data)
	entries := strings.Split(string(text), "\n\n")
	if len(entries) != 2 {
		t.Fatalf("%d entries:\n%s", len(entries), text)
	}
	for i, arch := range []string{"mips_24kc", "x86_64"} {
		more := fmt.Sprintf("Filename: fastpath_1.2.3-r4_%s.ipk\nSize: %d\nSHA256sum: %x\n", arch, len(ipk), sha256.Sum256(ipk))
		got := strings.TrimSuffix(entries[i], "\n") + "\n"
		if !strings.Contains(got, more) {
			t.Errorf("%s: no\n%s", got, more)
		}
		sameLines(t, "the rest is the control file", strings.Split(strings.Replace(got, more, "", 1), "\n"), strings.Split(control, "\n"))
	}
	f, err := os.Open(filepath.Join(dir, "Packages.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := io.ReadAll(zr)
	if err != nil || string(unzipped) != string(text) {
		t.Errorf("Packages.gz holds something else: %v", err)
	}

	if err := os.WriteFile(filepath.Join(dir, "a.ipk"), []byte("!<arch>\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"index", dir}); err == nil || !strings.Contains(err.Error(), "a.ipk") {
		t.Errorf("a package that is none: %v", err)
	}
}
