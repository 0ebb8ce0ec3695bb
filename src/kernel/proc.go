// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// translators are jool's modules (NAT64, SIIT).
var translators = []string{"jool", "jool_siit"}

func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// readProc hands a file of /proc to parse; one that is missing is empty (no
// PPPoE, no modules).
func readProc[T any](path string, parse func(io.Reader) T) T {
	f, err := os.Open(path)
	if err != nil {
		return parse(strings.NewReader(""))
	}
	defer f.Close()
	return parse(f)
}

// loaded reads /proc/modules, name, size, users, by whom, state, address, for
// those of these names.
func loaded(modules io.Reader, names []string) []string {
	var found []string
	for s := bufio.NewScanner(modules); s.Scan(); {
		name, _, _ := strings.Cut(s.Text(), " ")
		if slices.Contains(names, name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// conntrackEvents reads whether conntrack tells of changes (nf_conntrack_events:
// 0 never, 1 always, 2 while somebody listens). A directory without
// nf_conntrack's files means that it isn't loaded yet; our rules load it.
func conntrackEvents(dir string) state.Ability {
	value, err := os.ReadFile(filepath.Join(dir, "nf_conntrack_events"))
	if err != nil {
		if _, err := os.Stat(filepath.Join(dir, "nf_conntrack_max")); err == nil {
			return state.Ability{Reason: "the kernel's conntrack has no events (CONFIG_NF_CONNTRACK_EVENTS)"}
		}
		return state.Ability{OK: true}
	}
	if strings.TrimSpace(string(value)) == "0" {
		return state.Ability{Reason: "conntrack's events are switched off (sysctl net.netfilter.nf_conntrack_events is 0)"}
	}
	return state.Ability{OK: true}
}
