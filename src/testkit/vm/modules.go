// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// DefaultModules are the kernel modules that a VM of a router needs on a
// kernel that has them as modules. Init loads all of them: the VM has no
// modprobe for the kernel to call.
func DefaultModules() []string {
	return []string{
		"crc32c_generic", "virtio_pci", "virtio_net", "virtio_rng",
		"veth", "dummy", "bridge", "8021q", "pppoe", "tun", "ipip", "ip6_tunnel",
		"sch_fq_codel", "sch_cake", "sch_htb", "sch_fq", "sch_prio", "sch_ingress", "ifb",
		"cls_matchall", "act_mirred", "act_gact", "act_ctinfo",
		"nf_tables", "nft_chain_nat", "nft_ct", "nft_nat", "nft_masq", "nft_limit", "nft_log",
		"nft_reject_inet", "nft_fib_inet", "nft_fib_netdev", "nft_flow_offload", "nf_flow_table_inet",
		"nf_conntrack_netlink", "nfnetlink_hook",
	}
}

// module is one kernel module.
type module struct {
	name    string // with _ where the file's name may have -
	content []byte // of the .ko
}

// readModule reads NAME.ko or NAME.ko.xz.
func readModule(name, path string) (m module, err error) {
	m.name = name
	if !strings.HasSuffix(path, ".xz") {
		m.content, err = os.ReadFile(path)
		return m, err
	}
	if m.content, err = exec.Command("xz", "-dc", path).Output(); err != nil {
		return m, fmt.Errorf("xz -dc %s: %w", path, err)
	}
	return m, nil
}

// findModules returns the wanted modules and what they depend on,
// dependencies first. root holds a kernel's modules (lib/modules/RELEASE). A
// module that isn't there is taken to be built in or not to exist in this
// kernel; what needs it will say so.
func findModules(root string, wanted []string) ([]module, error) {
	paths, err := indexModules(root)
	if err != nil {
		return nil, err
	}
	var order []module
	done := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		path, ok := paths[name]
		if !ok || done[name] {
			return nil
		}
		done[name] = true
		m, err := readModule(name, path)
		if err != nil {
			return err
		}
		depends, err := m.depends()
		if err != nil {
			return err
		}
		for _, d := range depends {
			if err := visit(d); err != nil {
				return err
			}
		}
		order = append(order, m)
		return nil
	}
	for _, name := range wanted {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// indexModules finds the files of all modules, by module name.
func indexModules(root string) (map[string]string, error) {
	paths := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		base, ok := strings.CutSuffix(strings.TrimSuffix(d.Name(), ".xz"), ".ko")
		if ok {
			paths[strings.ReplaceAll(base, "-", "_")] = p
		}
		return nil
	})
	if err == nil && len(paths) == 0 {
		err = errors.New("no kernel modules below " + root)
	}
	return paths, err
}

// depends reads the module's own list of what it needs: depends= in its
// .modinfo section. (Debian's packages have no modules.dep: depmod makes it
// when they are installed.)
func (m module) depends() ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(m.content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("%s: no .modinfo", m.name)
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("%s: .modinfo: %w", m.name, err)
	}
	for _, field := range strings.Split(string(info), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ","), nil
		}
	}
	return nil, nil
}
