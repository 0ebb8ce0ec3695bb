// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// accelerators are the modules of others that take packets out of the
// kernel's path, by the names that /proc/modules has (openwrt packages,
// turboacc, natflow, the vendors' SDKs).
var accelerators = []string{
	"shortcut_fe", "shortcut_fe_ipv6", "shortcut_fe_cm", "fast_classifier", "shortcut_fe_drv",
	"mtkhnat", "mtk_hnat", "hw_nat", "natflow", iptablesTarget,
	"qca_nss_ecm", "ecm", "qca_nss_sfe",
}

// iptablesTarget accelerates nothing unless a rule uses it, and is loaded
// without one at boot.
const iptablesTarget = "xt_FLOWOFFLOAD"

const procDir = "/proc"

// loadedAccelerators reads /proc/modules: name, size, users, by whom, state, address.
func loadedAccelerators(modules io.Reader) []string {
	var found []string
	for s := bufio.NewScanner(modules); s.Scan(); {
		w := strings.Fields(s.Text())
		if len(w) < 3 || !slices.Contains(accelerators, w[0]) || w[0] == iptablesTarget && w[2] == "0" {
			continue
		}
		found = append(found, w[0])
	}
	slices.Sort(found)
	return found
}

// anyClassifies: some link has a BPF program at tc ingress. Bridger puts one on
// each port of a bridge, so without one nobody needs to look for it.
func anyClassifies(links []state.Link) bool {
	return slices.ContainsFunc(links, func(l state.Link) bool { return l.Qdisc.Classify })
}

// runs: a process of that name runs in our network namespace. proc is /proc.
func runs(proc, name string) bool {
	dir, err := os.Open(proc)
	if err != nil {
		return false
	}
	defer dir.Close()
	ours, err := os.Readlink(filepath.Join(proc, "thread-self", "ns", "net"))
	if err != nil {
		return false
	}
	pids, _ := dir.Readdirnames(-1)
	for _, pid := range pids {
		if pid[0] < '0' || pid[0] > '9' {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(proc, pid, "comm"))
		if err != nil || strings.TrimSuffix(string(comm), "\n") != name {
			continue
		}
		if net, err := os.Readlink(filepath.Join(proc, pid, "ns", "net")); err == nil && net == ours {
			return true
		}
	}
	return false
}

// familyNames are nft's words.
var familyNames = map[byte]string{
	unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6", unix.NFPROTO_BRIDGE: "bridge", unix.NFPROTO_NETDEV: "netdev",
}

// foreignFlowtables are those of neither our table nor fw4's.
func (c *conn) foreignFlowtables() ([]state.ForeignFlowtable, error) {
	all, err := c.flowtables()
	if err != nil {
		return nil, err
	}
	var foreign []state.ForeignFlowtable
	for _, f := range all {
		if f.family == unix.NFPROTO_INET && (f.table == state.TableName || f.table == fw4Name) {
			continue
		}
		foreign = append(foreign, state.ForeignFlowtable{
			Table: familyNames[f.family] + " " + f.table, Name: f.name, Devices: f.devices, Hardware: f.flags&flowtableHardware != 0,
		})
	}
	sort.Slice(foreign, func(i, j int) bool {
		a, b := foreign[i], foreign[j]
		return a.Table < b.Table || a.Table == b.Table && a.Name < b.Name
	})
	return foreign, nil
}
