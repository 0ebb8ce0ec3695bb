// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"path/filepath"

	"fastpath/src/testkit/vm"
)

// kpppd is where the VM has the program of that name.
const kpppd = "/job/kpppd"

// VM describes a VM in which Build works. It builds kpppd into dir, which has
// to stay until the VM has run. The caller adds files, programs and Args.
func VM(k vm.Kernel, dir string) (vm.Config, error) {
	prog := filepath.Join(dir, "kpppd")
	if err := vm.GoBuild(prog, "./src/itest/topo/kpppd"); err != nil {
		return vm.Config{}, err
	}
	return vm.Config{
		Kernel:   k,
		NICs:     hubs,
		Files:    map[string]string{kpppd: prog},
		Programs: []string{"busybox", "sh", "ip", "bridge", "nft", "ethtool", "pppd", "pppoe-server"},
	}, nil
}
