// SPDX-License-Identifier: Apache-2.0

package uci

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded is where the answers of the real program to 80 files are kept, beside
// the repository.
const recorded = "../../../shared/uci-cases"

// TestRecorded compares with what the real program printed for each file: show,
// show -X, export and lenient show, each with its errors.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob(recorded + "/*.conf")
	if err != nil || len(files) == 0 {
		t.Log("the recorded answers are not here; only the project's own cases are run")
		return
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out, err := os.ReadFile(strings.TrimSuffix(file, ".conf") + ".out")
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range answers(t, string(out)) {
				if got := answer(t, run.command, in); got != run {
					t.Errorf("%s of %q:\ngot  %+q\nwant %+q", run.command, in, got, run)
				}
			}
		})
	}
}

// run is one recorded call of the real program.
type run struct {
	command        string
	stdout, stderr string
	exit           string
}

// answers takes a .out file apart.
func answers(t *testing.T, out string) (all []run) {
	t.Helper()
	for _, block := range strings.Split(out, "### uci ")[1:] {
		title, rest, ok1 := strings.Cut(block, "\n--- stdout\n")
		stdout, stderr, ok2 := strings.Cut(rest, "--- stderr\n")
		command, exit, ok3 := strings.Cut(title, ": exit ")
		if !ok1 || !ok2 || !ok3 {
			t.Fatalf("a recorded answer of an unknown form: %q", block)
		}
		command, _, _ = strings.Cut(command, " (")
		all = append(all, run{command, stdout, stderr, exit})
	}
	if len(all) != 4 {
		t.Fatalf("%d recorded answers, want 4", len(all))
	}
	return all
}

// answer does what `uci COMMAND t` does.
func answer(t *testing.T, command string, in []byte) run {
	t.Helper()
	r := run{command: command, exit: "0"}
	mode, prefix := Strict, "uci: "
	if command == "-S show" {
		mode, prefix = Lenient, ""
	}
	p, faults := Parse("/etc/config/t", in, mode)
	for _, e := range faults {
		r.stderr += fmt.Sprintf("%sParse error (%s) at line %d, byte %d\n", prefix, e.Reason, e.Line, e.Byte)
	}
	switch {
	case p == nil:
		r.exit = "1"
	case command == "export":
		r.stdout = export(t, p)
	default:
		r.stdout = show(p, command == "show -X")
	}
	return r
}

func export(t testing.TB, p *Package) string {
	t.Helper()
	var b bytes.Buffer
	if err := Export(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// show prints the package as `uci show` does, or as `uci show -X` with the
// real names of anonymous sections.
func show(p *Package, real bool) string {
	var b strings.Builder
	count := map[string]int{}
	for _, s := range p.Sections {
		name := s.Name
		if s.Anonymous && !real {
			name = fmt.Sprintf("@%s[%d]", s.Type, count[s.Type])
		}
		count[s.Type]++
		fmt.Fprintf(&b, "%s.%s=%s\n", p.Name, name, s.Type)
		for _, o := range s.Options {
			var values []string
			for _, v := range o.Values {
				values = append(values, "'"+strings.ReplaceAll(v.Text, "'", `'\''`)+"'")
			}
			fmt.Fprintf(&b, "%s.%s.%s=%s\n", p.Name, name, o.Name, strings.Join(values, " "))
		}
	}
	return b.String()
}
