// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"sort"
	"strings"
	"time"
)

// file is one member of a tar: its absolute path without the leading slash, its
// permission bits and what it holds. Everything belongs to root.
type file struct {
	path string
	mode int64
	data []byte
}

// writeTar writes what `tar --format=gnu --numeric-owner` would: names begin
// with "./", all times are mtime, owner and group are 0:0.
func writeTar(w io.Writer, files []file, mtime time.Time) error {
	tw := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: "./" + f.path, Mode: f.mode, ModTime: mtime, Format: tar.FormatGNU}
		if f.path == "" || strings.HasSuffix(f.path, "/") {
			h.Typeflag = tar.TypeDir
		} else {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(f.data))
		}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("tar member %s: %w", h.Name, err)
		}
		if _, err := tw.Write(f.data); err != nil {
			return fmt.Errorf("tar member %s: %w", h.Name, err)
		}
	}
	return tw.Close()
}

// withDirs adds every directory above the files and sorts all by name, each
// directory before what is in it.
func withDirs(files []file) []file {
	all := []file{{path: "", mode: 0o755}}
	seen := map[string]bool{".": true}
	for _, f := range files {
		all = append(all, f)
		for dir := path.Dir(f.path); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			all = append(all, file{path: dir + "/", mode: 0o755})
		}
	}
	// A slash sorts before every other byte, as a walk of the tree does.
	key := func(i int) string { return strings.ReplaceAll(all[i].path, "/", "\x00") }
	sort.Slice(all, func(i, j int) bool { return key(i) < key(j) })
	return all
}

// writeGzip writes data as `gzip -9n` does: no name and no time.
func writeGzip(w io.Writer, data []byte) error {
	zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := zw.Write(data); err != nil {
		return err
	}
	return zw.Close()
}

// tarGz is files as a compressed tar; size is the tar's length before that.
func tarGz(files []file, mtime time.Time) (gz []byte, size int, err error) {
	var plain, packed bytes.Buffer
	if err := writeTar(&plain, files, mtime); err != nil {
		return nil, 0, err
	}
	if err := writeGzip(&packed, plain.Bytes()); err != nil {
		return nil, 0, err
	}
	return packed.Bytes(), plain.Len(), nil
}
