// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"fastpath/src/config"
	"fastpath/src/uci"
)

// reported are the files of /etc/config that decide something about us.
var reported = []string{"fastpath", "network", "firewall", "turboacc", "sqm", "qosify", "qosmate", "mwan3", "pbr"}

// networkOptions are those of /etc/config/network whose values are shown. It is
// the file that protocols put their passwords into, under any name.
var networkOptions = []string{
	"auto", "bridge_empty", "defaultroute", "delegate", "device", "dest", "disabled", "encaplimit", "force_link", "gateway", "gro",
	"ifname", "igmp_snooping", "in", "interface", "ip4table", "ip6addr", "ip6assign", "ip6prefix", "ip6table", "ipaddr", "ipv6",
	"keepalive", "lookup", "macaddr", "mark", "metric", "mtu", "mtu6", "name", "netmask", "out", "packet_steering", "peeraddr",
	"ports", "priority", "proto", "rxpause", "src", "steering_flows", "table", "target", "tunlink", "type", "vid", "vlan",
	"vlan_filtering",
}

// configDirs are the directories of a file in the order of their precedence.
func configDirs(d config.Dirs) []string {
	if d.Override == "" {
		return []string{d.Config}
	}
	return []string{d.Override, d.Config}
}

// secrets gathers the values of secret options from all files, longest first,
// so that none leaves a part of another behind.
func secrets(d config.Dirs) (all []string) {
	for _, dir := range configDirs(d) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			p, _ := uci.ReadFile(filepath.Join(dir, e.Name()), uci.Lenient)
			if p == nil {
				continue
			}
			for _, s := range p.Sections {
				for _, o := range s.Options {
					if secretOption(o.Name) {
						all = append(all, texts(o)...)
					}
				}
			}
		}
	}
	all = slices.DeleteFunc(all, func(s string) bool { return !telling(s) })
	sort.Slice(all, func(i, j int) bool { return len(all[i]) > len(all[j]) })
	return slices.Compact(all)
}

func texts(o *uci.Option) (all []string) {
	for _, v := range o.Values {
		all = append(all, v.Text)
	}
	return all
}

// writeConfig prints a file as `uci export` would, which leaves comments out, and
// with what may be secret left out.
func writeConfig(r *report, d config.Dirs, name string) {
	p, err := uci.Load(name, uci.Lenient, configDirs(d)...)
	var faults uci.Errors
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case errors.As(err, &faults):
		for _, e := range faults {
			r.line("%v", e)
		}
	case err != nil:
		r.cant(name, err)
		return
	}
	r.title("configuration " + p.File)
	for _, s := range p.Sections {
		for _, o := range s.Options {
			hide := secretOption(o.Name) || name == "network" && !slices.Contains(networkOptions, o.Name)
			for i := range o.Values {
				if hide {
					o.Values[i].Text = leftOut
				}
			}
		}
	}
	var text strings.Builder
	uci.Export(&text, p)
	_, body, _ := strings.Cut(text.String(), "\n\n") // without the package line
	fmt.Fprint(r, body)
}
