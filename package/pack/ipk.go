// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"
)

// pkg is one package as it is built.
type pkg struct {
	name        string
	version     string // VERSION-rRELEASE
	arch        string // as OpenWrt names it: x86_64, or all
	epoch       int64  // SOURCE_DATE_EPOCH: the time of every member
	section     string
	depends     string // separated by ", "
	description string // its first line is the title
	files       []file // what goes onto the router
	scripts     []file // maintainer scripts, by name
}

// conffiles are the files that an upgrade must not overwrite.
func (p pkg) conffiles() []byte {
	var b strings.Builder
	for _, f := range p.files {
		if strings.HasPrefix(f.path, "etc/config/") {
			fmt.Fprintf(&b, "/%s\n", f.path)
		}
	}
	return []byte(b.String())
}

// control is the package's description for opkg; installed is the size of the
// data in bytes, unpacked. Every continuation line begins with a blank.
func (p pkg) control(installed int) []byte {
	return fmt.Appendf(nil, `Package: %s
Version: %s
Depends: %s
License: Apache-2.0
Section: %s
SourceDateEpoch: %d
Architecture: %s
Installed-Size: %d
Description: %s
`, p.name, p.version, p.depends, p.section, p.epoch, p.arch, installed, strings.ReplaceAll(p.description, "\n", "\n "))
}

// fileName is the name that opkg's index tools expect.
func (p pkg) fileName() string {
	return fmt.Sprintf("%s_%s_%s.ipk", p.name, p.version, p.arch)
}

// ipk is the package as OpenWrt's scripts/ipkg-build writes it: a gzipped tar
// (not an ar) of three members in this order. The same pkg gives the same bytes.
func (p pkg) ipk() ([]byte, error) {
	mtime := time.Unix(p.epoch, 0)
	data, installed, err := tarGz(withDirs(p.files), mtime)
	if err != nil {
		return nil, err
	}
	members := append([]file{{"control", 0o644, p.control(installed)}}, p.scripts...)
	if conffiles := p.conffiles(); len(conffiles) > 0 {
		members = append(members, file{"conffiles", 0o644, conffiles})
	}
	control, _, err := tarGz(withDirs(members), mtime)
	if err != nil {
		return nil, err
	}
	all, _, err := tarGz([]file{
		{"debian-binary", 0o644, []byte("2.0\n")},
		{"data.tar.gz", 0o644, data},
		{"control.tar.gz", 0o644, control},
	}, mtime)
	return all, err
}
