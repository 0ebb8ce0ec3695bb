// SPDX-License-Identifier: Apache-2.0

// Command pack makes packages for OpenWrt without its SDK, the same bytes for
// the same source.
//
//	pack ipk -version 1.2.3-r1 -arch x86_64 -binary FILE -out DIR
//	pack index DIR
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// run does what the first word says.
func run(args []string) error {
	word := ""
	if len(args) > 0 {
		word, args = args[0], args[1:]
	}
	switch word {
	case "ipk":
		return makeIPK(args)
	case "index":
		if len(args) != 1 {
			return errors.New("index takes a directory")
		}
		return index(args[0])
	}
	return fmt.Errorf("unknown command %q; there are ipk and index", word)
}

// What a file name and a line of the control file can hold; the version is one
// that opkg and apk order in the same way.
var (
	validVersion = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*-r[0-9]+$`)
	validArch    = regexp.MustCompile(`^[a-z0-9][a-z0-9_.+-]*$`)
)

// makeIPK writes fastpath_VERSION_ARCH.ipk and says what it wrote.
func makeIPK(args []string) error {
	flags := flag.NewFlagSet("ipk", flag.ContinueOnError)
	version := flags.String("version", "", "`VERSION-rRELEASE` of the package")
	arch := flags.String("arch", "", "OpenWrt's name of the `architecture`")
	binary := flags.String("binary", "", "the `file` that becomes /usr/sbin/fastpath")
	root := flags.String("root", ".", "the repository's `directory`")
	out := flags.String("out", "", "`directory` for the package")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("ipk takes no argument %q", flags.Arg(0))
	case *binary == "" || *out == "":
		return errors.New("-binary and -out are needed")
	case !validVersion.MatchString(*version):
		return fmt.Errorf("-version %q is not like 1.2.3-r1", *version)
	case !validArch.MatchString(*arch):
		return fmt.Errorf("-arch %q is no name of an architecture, like x86_64", *arch)
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH, the time of every file: %w", err)
	}
	p, err := daemon(pkg{version: *version, arch: *arch, epoch: epoch}, *root, *binary)
	if err != nil {
		return err
	}
	data, err := p.ipk()
	if err != nil {
		return err
	}
	path := filepath.Join(*out, p.fileName())
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes\n", path, len(data))
	return nil
}
