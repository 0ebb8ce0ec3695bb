// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// index writes Packages and Packages.gz for the packages in a directory, as
// opkg reads them of a feed: each control file with the package's name, size and
// checksum before its description.
func index(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.ipk")) // sorted
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("no .ipk in %s: make ipk makes them", dir)
	}
	var entries []string
	for _, name := range names {
		entry, err := indexEntry(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		entries = append(entries, entry)
	}
	text := []byte(strings.Join(entries, "\n"))
	var packed bytes.Buffer
	if err := writeGzip(&packed, text); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "Packages"), text, 0o644),
		os.WriteFile(filepath.Join(dir, "Packages.gz"), packed.Bytes(), 0o644))
}

func indexEntry(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	inner, err := pick(data, "./control.tar.gz")
	if err != nil {
		return "", err
	}
	control, err := pick(inner, "./control")
	if err != nil {
		return "", err
	}
	before, after, ok := strings.Cut(string(control), "\nDescription:")
	if !ok {
		return "", errors.New("its control file has no description")
	}
	return fmt.Sprintf("%s\nFilename: %s\nSize: %d\nSHA256sum: %x\nDescription:%s",
		before, filepath.Base(name), len(data), sha256.Sum256(data), after), nil
}

// pick is one file of a gzipped tar.
func pick(gz []byte, name string) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		return nil, err
	}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("no %s in it", name)
		}
		if err != nil {
			return nil, err
		}
		if h.Name == name {
			return io.ReadAll(tr)
		}
	}
}
