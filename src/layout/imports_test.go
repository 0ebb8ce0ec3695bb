// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "fastpath/"
	xdp    = "github.com/asavie/xdp"  // the independent peer of tests and bench
	ebpf   = "github.com/cilium/ebpf" // 2 MB of a binary: makes and tests src/bpf
)

// rooms are the packages of the router's binary and what each may import of
// ours. Nothing else may stand below src/ but the tests' own rooms.
var rooms = map[string][]string{
	"src/uci":          {},
	"src/config":       {"src/uci"},
	"src/state":        {},
	"src/plan":         {"src/config", "src/state"},
	"src/kernel":       {"src/state"},
	"src/agent":        {"src/config", "src/plan", "src/state", "src/status"},
	"src/status":       {"src/state"},
	"src/packet":       {},
	"src/flow":         {"src/packet"},
	"src/xsk":          {},
	"src/bpf":          {},
	"src/forward":      {"src/packet", "src/flow"},
	"src/flowsync":     {"src/packet", "src/state"},
	"src/engine":       {"src/state", "src/packet", "src/flow", "src/xsk", "src/bpf", "src/forward", "src/flowsync"},
	"src/cmd/fastpath": {"src/uci", "src/config", "src/state", "src/plan", "src/kernel", "src/agent", "src/status", "src/engine"},
}

// testRooms hold nothing but tests and what tests share. No room imports them.
var testRooms = []string{"src/testkit", "src/itest", "src/layout"}

// foreign are the modules that we depend on directly.
var foreign = []string{
	"github.com/vishvananda/netlink",
	"github.com/google/nftables",
	"github.com/coreos/go-systemd/v22",
	"github.com/safchain/ethtool",
	"github.com/ti-mo/conntrack",
	"golang.org/x/sys",
	xdp,
	ebpf,
}

// below says whether an import path or file is prefix or lies under it.
func below(p, prefix string) bool {
	return p == prefix || strings.HasPrefix(p, prefix+"/")
}

func inTestRoom(p string) bool {
	return slices.ContainsFunc(testRooms, func(room string) bool { return below(p, room) })
}

// testOnly are the foreign packages that the router's binary may not have.
var testOnly = []string{xdp, ebpf}

// wrongImport says why a file of directory dir may not import what, or "". test:
// the file is a test, or a program that makes files (//go:build ignore).
func wrongImport(dir string, test bool, what string) string {
	own, ours := strings.CutPrefix(what, module)
	test = test || inTestRoom(dir)
	switch {
	case ours && test:
		return ""
	case ours && inTestRoom(own):
		return "is for tests only"
	case ours && below(dir, "src"):
		if !slices.Contains(rooms[dir], own) {
			return "is not in the import table"
		}
	case ours:
		return "is the router's; only src/ may import it"
	case !test && slices.ContainsFunc(testOnly, func(m string) bool { return below(what, m) }):
		return "is for tests and bench only"
	case strings.Contains(strings.Split(what, "/")[0], "."):
		if !slices.ContainsFunc(foreign, func(m string) bool { return below(what, m) }) {
			return "is of no module that we depend on"
		}
	}
	return ""
}

func TestImports(t *testing.T) {
	sources(t, func(file string, text []byte) {
		if path.Ext(file) != ".go" {
			return
		}
		dir := path.Dir(file)
		if _, room := rooms[dir]; below(dir, "src") && !room && !inTestRoom(dir) {
			t.Errorf("%s: %s is no room of the import table", file, dir)
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		test := strings.HasSuffix(file, "_test.go") || bytes.Contains(text, []byte("\n//go:build ignore\n"))
		for _, spec := range f.Imports {
			what, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if why := wrongImport(dir, test, what); why != "" {
				t.Errorf("%s: %s %s", file, what, why)
			}
		}
	})
}

// The table refuses what it should.
func TestImportTable(t *testing.T) {
	tests := []struct {
		dir  string
		test bool
		what string
		ok   bool
	}{
		{"src/plan", false, "fastpath/src/state", true},
		{"src/plan", false, "fastpath/src/kernel", false},
		{"src/plan", true, "fastpath/src/uci", true},
		{"src/plan", false, "fastpath/src/testkit", false},
		{"src/kernel", false, "fastpath/src/config", false},
		{"src/packet", false, "encoding/binary", true},
		{"src/cmd/fastpath", false, "fastpath/src/kernel", true},
		{"src/cmd/fastpath", false, "fastpath/src/itest/topo", false},
		{"src/itest/demo", false, "fastpath/src/testkit/vm", true},
		{"src/xsk", false, xdp, false},
		{"src/xsk", true, xdp, true},
		{"src/bpf", false, ebpf, false},
		{"src/bpf", false, ebpf + "/link", false},
		{"src/bpf", true, ebpf + "/asm", true},
		{"src/itest/bench", false, ebpf, true},
		{"src/kernel", false, "github.com/google/nftables/expr", true},
		{"src/kernel", false, "github.com/google/nftablesx", false},
		{"src/kernel", true, "github.com/google/go-cmp/cmp", false},
		{"package/pack", false, "fastpath/src/uci", false},
		{"package/pack", true, "fastpath/src/uci", true},
	}
	for _, tt := range tests {
		if why := wrongImport(tt.dir, tt.test, tt.what); (why == "") != tt.ok {
			t.Errorf("%s (test: %v) importing %s: %q, want allowed %v", tt.dir, tt.test, tt.what, why, tt.ok)
		}
	}
}

// A module that go.mod requires without "// indirect" is a direct dependency.
func TestDirectDependencies(t *testing.T) {
	text, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	block := false
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		switch {
		case len(fields) == 2 && fields[0] == "require":
			block = true
		case len(fields) > 0 && fields[0] == ")":
			block = false
		case len(fields) >= 2 && (block || strings.HasPrefix(line, "require ")) && !strings.Contains(line, "// indirect"):
			if !slices.Contains(foreign, fields[0]) {
				t.Errorf("go.mod: %s is no dependency that was agreed on", fields[0])
			}
		}
	}
}
