// SPDX-License-Identifier: Apache-2.0

// Command ipk packs the router's binary and its files as an opkg package, the
// same bytes for the same input.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

func main() {
	version := flag.String("version", "", "`VERSION-rRELEASE` of the package")
	arch := flag.String("arch", "", "OpenWrt's name of the `architecture`")
	binary := flag.String("binary", "", "the `file` that becomes /usr/sbin/fastpath")
	root := flag.String("root", ".", "the repository's `directory`")
	out := flag.String("out", "", "`directory` for the package")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "ipk: it takes no argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(pkg{version: *version, arch: *arch}, *root, *binary, *out); err != nil {
		fmt.Fprintln(os.Stderr, "ipk:", err)
		os.Exit(1)
	}
}

// What a file name and a line of the control file can hold; the version is one
// that opkg and apk order in the same way.
var (
	validVersion = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*-r[0-9]+$`)
	validArch    = regexp.MustCompile(`^[a-z0-9][a-z0-9_.+-]*$`)
)

// run writes the package into the directory out and says what it wrote.
func run(p pkg, root, binary, out string) error {
	if p.version == "" || p.arch == "" || binary == "" || out == "" {
		return errors.New("-version, -arch, -binary and -out are needed")
	}
	if !validVersion.MatchString(p.version) {
		return fmt.Errorf("-version %q is not like 1.2.3-r1", p.version)
	}
	if !validArch.MatchString(p.arch) {
		return fmt.Errorf("-arch %q is no name of an architecture, like x86_64", p.arch)
	}
	var err error
	if p.epoch, err = strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH, the time of every file: %w", err)
	}
	if p.files, err = routerFiles(root, binary); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := p.write(&b); err != nil {
		return err
	}
	path := filepath.Join(out, p.name())
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes\n", path, b.Len())
	return nil
}
