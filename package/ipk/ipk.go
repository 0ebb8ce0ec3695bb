// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

//go:embed postinst
var postinst []byte

//go:embed prerm
var prerm []byte

// depends are the kernel parts that OpenWrt packs one by one: flowtables,
// conntrack's netlink, rules at netdev hooks, source validation. Kernels without
// XDP or AF_XDP run everything but the engines, so those are no dependency.
const depends = "kmod-nf-conntrack-netlink, kmod-nft-fib, kmod-nft-netdev, kmod-nft-offload"

// Every continuation line begins with a blank.
const description = `Faster forwarding for routers
 Installs nftables flowtables at the earliest hook that the kernel has, settles
 receive offloads for each port, and runs XDP and AF_XDP engines on ports that
 the user names. Installing it changes nothing: /etc/config/fastpath switches it on.`

// pkg is one build of the package.
type pkg struct {
	version string // VERSION-rRELEASE
	arch    string // as OpenWrt names it: x86_64
	epoch   int64  // SOURCE_DATE_EPOCH: the time of every member
	files   []file // what goes onto the router
}

// sources says where each file on the router comes from in the repository.
var sources = []struct {
	path string
	mode int64
	from string
}{
	{"etc/config/fastpath", 0o600, "uci/fastpath"}, // the mode that the feed's INSTALL_CONF gives
	{"etc/hotplug.d/iface/60-fastpath", 0o755, "hotplug/iface/60-fastpath"},
	{"etc/hotplug.d/net/60-fastpath", 0o755, "hotplug/net/60-fastpath"},
	{"etc/init.d/fastpath", 0o755, "files/fastpath.init"},
}

// routerFiles reads what the package puts onto the router: the binary and, from
// the repository at root, the sources.
func routerFiles(root, binary string) ([]file, error) {
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("the router's binary: %w", err)
	}
	files := []file{{"usr/sbin/fastpath", 0o755, data}}
	for _, s := range sources {
		data, err := os.ReadFile(filepath.Join(root, s.from))
		if err != nil {
			return nil, fmt.Errorf("for /%s: %w", s.path, err)
		}
		files = append(files, file{s.path, s.mode, data})
	}
	return files, nil
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
// data in bytes, unpacked.
func (p pkg) control(installed int) []byte {
	return fmt.Appendf(nil, `Package: fastpath
Version: %s
Depends: %s
License: Apache-2.0
Section: net
SourceDateEpoch: %d
Architecture: %s
Installed-Size: %d
Description: %s
`, p.version, depends, p.epoch, p.arch, installed, description)
}

// name is the file name that opkg's index tools expect.
func (p pkg) name() string {
	return fmt.Sprintf("fastpath_%s_%s.ipk", p.version, p.arch)
}

// write writes the package as OpenWrt's scripts/ipkg-build does: a gzipped tar
// (not an ar) of three members in this order. The same pkg gives the same bytes.
func (p pkg) write(w io.Writer) error {
	mtime := time.Unix(p.epoch, 0)
	data, installed, err := tarGz(withDirs(p.files), mtime)
	if err != nil {
		return err
	}
	control, _, err := tarGz(withDirs([]file{
		{"control", 0o644, p.control(installed)},
		{"conffiles", 0o644, p.conffiles()},
		{"postinst", 0o755, postinst},
		{"prerm", 0o755, prerm},
	}), mtime)
	if err != nil {
		return err
	}
	all, _, err := tarGz([]file{
		{"debian-binary", 0o644, []byte("2.0\n")},
		{"data.tar.gz", 0o644, data},
		{"control.tar.gz", 0o644, control},
	}, mtime)
	if err != nil {
		return err
	}
	_, err = w.Write(all)
	return err
}
