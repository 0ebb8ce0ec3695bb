// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// depends are the kernel parts that OpenWrt packs one by one: flowtables,
// conntrack's netlink, rules at netdev hooks, source validation. Kernels without
// XDP or AF_XDP run everything but the engines, so those are no dependency.
const depends = "kmod-nf-conntrack-netlink, kmod-nft-fib, kmod-nft-netdev, kmod-nft-offload"

const description = `Faster forwarding for routers
Installs nftables flowtables at the earliest hook that the kernel has, settles
receive offloads for each port, and runs XDP and AF_XDP engines on ports that
the user names. Installing it changes nothing: /etc/config/fastpath switches it on.`

// source is a file of the repository that goes somewhere in a package.
type source struct {
	path string
	mode int64
	from string
}

// sources are what the package fastpath has besides the binary.
var sources = []source{
	{"etc/config/fastpath", 0o600, "uci/fastpath"}, // the mode that the feed's INSTALL_CONF gives
	{"etc/hotplug.d/iface/60-fastpath", 0o755, "hotplug/iface/60-fastpath"},
	{"etc/hotplug.d/net/60-fastpath", 0o755, "hotplug/net/60-fastpath"},
	{"etc/init.d/fastpath", 0o755, "files/fastpath.init"},
	{"lib/upgrade/keep.d/fastpath", 0o644, "files/fastpath.keep"},
}

// scripts are its maintainer scripts.
var scripts = []source{
	{"postinst", 0o755, "package/pack/postinst"},
	{"prerm", 0o755, "package/pack/prerm"},
}

// daemon is the package fastpath: the binary and, from the repository at root,
// its surroundings.
func daemon(p pkg, root, binary string) (pkg, error) {
	p.name, p.section, p.depends, p.description = "fastpath", "net", depends, description
	data, err := os.ReadFile(binary)
	if err != nil {
		return p, fmt.Errorf("the router's binary: %w", err)
	}
	if p.files, err = read(root, sources); err != nil {
		return p, err
	}
	p.files = append(p.files, file{"usr/sbin/fastpath", 0o755, data})
	p.scripts, err = read(root, scripts)
	return p, err
}

// read reads files of the repository at root.
func read(root string, from []source) (files []file, err error) {
	for _, s := range from {
		data, err := os.ReadFile(filepath.Join(root, s.from))
		if err != nil {
			return nil, fmt.Errorf("for %s: %w", s.path, err)
		}
		files = append(files, file{s.path, s.mode, data})
	}
	return files, nil
}
