// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"fastpath/src/testkit"
)

const epoch = 1700000000 // 2023-11-14 22:13:20 UTC

// member is one entry of a tar as the reader of this test saw it.
type member struct {
	tar.Header
	data []byte
}

// readTarGz is the test's own reader. It insists on what ipkg-build gives: gzip
// without name and time, GNU format, root's files, one time.
func readTarGz(t *testing.T, gz []byte) []member {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		t.Fatal(err)
	}
	if zr.Name != "" || !zr.ModTime.IsZero() {
		t.Errorf("gzip header has name %q and time %v", zr.Name, zr.ModTime)
	}
	var all []member
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Format != tar.FormatGNU {
			t.Errorf("%s: format %v, want GNU", h.Name, h.Format)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || h.ModTime.Unix() != epoch {
			t.Errorf("%s: owner %d:%d (%q:%q), time %v", h.Name, h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, member{*h, data})
	}
}

// listing is what `tar -tv --numeric-owner` prints for the members.
func listing(all []member) []string {
	var lines []string
	for _, m := range all {
		lines = append(lines, fmt.Sprintf("%s %d/%d %d %s %s", m.FileInfo().Mode(), m.Uid, m.Gid, m.Size,
			m.ModTime.UTC().Format("2006-01-02 15:04"), m.Name))
	}
	return lines
}

// gnuListing asks GNU tar itself.
func gnuListing(t *testing.T, gz []byte) []string {
	t.Helper()
	version, err := exec.Command("tar", "--version").Output()
	testkit.Need(t, err == nil && bytes.Contains(version, []byte("GNU tar")), "no GNU tar")
	cmd := exec.Command("tar", "-tvzf", "-", "--numeric-owner", "--utc")
	cmd.Stdin = bytes.NewReader(gz)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func sameLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("%s:\n%s\nwant:\n%s", what, g, w)
	}
}

func TestWithDirs(t *testing.T) {
	files := []file{{path: "etc/config/b"}, {path: "etc/config-x"}, {path: "a"}, {path: "etc/config/a"}}
	var got []string
	for _, f := range withDirs(files) {
		got = append(got, f.path)
	}
	sameLines(t, "order", got, []string{"", "a", "etc/", "etc/config/", "etc/config/a", "etc/config/b", "etc/config-x"})
}

func TestTarGzIsWhatGNUTarReads(t *testing.T) {
	files := withDirs([]file{
		{"usr/sbin/" + strings.Repeat("long", 40), 0o755, []byte("x")}, // past the 100 bytes of the old header
		{"etc/config/fastpath", 0o600, bytes.Repeat([]byte("0123456789"), 1000)},
		{"empty", 0o644, nil},
	})
	gz, size, err := tarGz(files, time.Unix(epoch, 0))
	if err != nil {
		t.Fatal(err)
	}
	zr, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, zr); err != nil || n != int64(size) {
		t.Errorf("unpacked %d bytes (%v), tarGz said %d", n, err, size)
	}
	own := readTarGz(t, gz)
	if len(own) != len(files) {
		t.Fatalf("%d members, want %d", len(own), len(files))
	}
	for i, m := range own {
		if m.Name != "./"+files[i].path || m.Mode != files[i].mode || !bytes.Equal(m.data, files[i].data) {
			t.Errorf("member %d is %s %o with %d bytes, want %s %o with %d", i, m.Name, m.Mode, len(m.data), files[i].path, files[i].mode, len(files[i].data))
		}
	}
	sameLines(t, "own reader against GNU tar", listing(own), gnuListing(t, gz))
}
