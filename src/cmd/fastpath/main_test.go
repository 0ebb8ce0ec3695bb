// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// binary is the command as the release builds it.
var binary string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fastpath-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // a test runs it as somebody else
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary = filepath.Join(dir, "fastpath")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=9.8.7", "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the command: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// result is what a run of the command left.
type result struct {
	code           int
	stdout, stderr string
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func fastpath(t *testing.T, args ...string) result {
	t.Helper()
	return finish(t, exec.Command(binary, args...))
}

// oneLine is how every error looks: what, why, and no more.
func (r result) oneLine(t *testing.T, code int, want string) {
	t.Helper()
	if r.code != code || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, want) {
		t.Errorf("exit code %d, stdout %q, stderr %q; want %d and one line on stderr with %q", r.code, r.stdout, r.stderr, code, want)
	}
}

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version", "-V", "-version"} {
		if r := fastpath(t, arg); r != (result{0, "9.8.7\n", ""}) {
			t.Errorf("%s: %+v", arg, r)
		}
	}
}

func TestHelp(t *testing.T) {
	all := fastpath(t, "--help")
	if all.code != 0 || all.stderr != "" {
		t.Errorf("--help: %+v", all)
	}
	for _, c := range commands() {
		if !strings.Contains(all.stdout, "\n  "+c.name+" ") || !strings.Contains(all.stdout, c.short) {
			t.Errorf("--help doesn't tell of %s", c.name)
		}
		r := fastpath(t, append(strings.Fields(c.name), "--help")...)
		for _, part := range []string{"fastpath " + c.name, "Exit codes:", "Example:"} {
			if r.code != 0 || !strings.Contains(r.stdout, part) {
				t.Errorf("%s --help lacks %q: %+v", c.name, part, r)
			}
		}
		if c.flags != nil && !strings.Contains(r.stdout, "\nFlags:\n  --") {
			t.Errorf("%s --help doesn't tell the flags: %s", c.name, r.stdout)
		}
	}
}

func TestWrongUse(t *testing.T) {
	for args, want := range map[string]string{
		"":                     "which command?",
		"sideways":             `unknown command "sideways"`,
		"--sideways":           `unknown command "--sideways"`,
		"uci":                  `unknown command "uci"`,
		"uci import x":         `unknown command "uci"`,
		"run --sideways":       "flag provided but not defined: -sideways",
		"run extra":            `it takes no argument "extra"`,
		"run --level loud":     `"loud" is not debug, info, warn or error`,
		"cleanup --level loud": `"loud" is not debug`,
		"status --json=maybe":  `invalid boolean value "maybe"`,
		"status extra":         `it takes no argument "extra"`,
		"flows sctp":           `"sctp" is not tcp`,
		"flows port":           "port needs a number",
		"flows engine none":    "engine needs one of",
		"flush sctp":           `"sctp" is not tcp`,
		"explain":              "it takes tcp or udp, and two ends",
		"explain tcp a b":      `"a" is not ADDRESS:PORT`,
		"explain --flows":      "flag provided but not defined",

		"status --json --prometheus": "not both",
		"notify":                     "which KIND?",
		"notify iface ACTION":        `"ACTION" is not KEY=VALUE`,
		"notify iface =x":            `"=x" is not KEY=VALUE`,
		"uci export":                 "one FILE",
		"uci export a b":             "one FILE",
		"check --config":             "flag needs an argument",
		"version --json":             "flag provided but not defined",
		"plan --run":                 "flag needs an argument",
		"check --config=":            "flag needs an argument: -config",
		"status --run=":              "flag needs an argument: -run",
	} {
		t.Run(args, func(t *testing.T) {
			r := fastpath(t, strings.Fields(args)...)
			r.oneLine(t, exitUsage, want)
			if !strings.Contains(r.stderr, "--help)") {
				t.Errorf("no word of --help: %q", r.stderr)
			}
		})
	}
}

func configDir(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fastpath"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

const good = "config fastpath 'main'\n\toption enabled '1'\n"

func TestCheck(t *testing.T) {
	dir := configDir(t, good)
	if r := fastpath(t, "check", "--config", dir); r != (result{0, "no problems\n", ""}) {
		t.Errorf("good: %+v", r)
	}
	dir = configDir(t, "# nothing in it\n")
	r := fastpath(t, "check", "--config", dir)
	if r.code != 0 || !strings.HasPrefix(r.stdout, "notice: "+dir+"/fastpath:") || !strings.HasSuffix(r.stdout, "\nno problems\n") {
		t.Errorf("with a notice: %+v", r)
	}
	dir = configDir(t, good+"\toption hook 'soon'\n\toption colour 'red'\n")
	r = fastpath(t, "check", "--config", dir)
	lines := strings.Split(r.stdout, "\n")
	if r.code != 1 || len(lines) != 3 || !strings.HasPrefix(lines[0], dir+"/fastpath:3: ") || !strings.HasPrefix(lines[1], dir+"/fastpath:4: ") {
		t.Errorf("two problems: %+v", r)
	}
	r = fastpath(t, "check", "--config", t.TempDir())
	if r.code != 1 || !strings.Contains(r.stdout, "fastpath: no such file") {
		t.Errorf("no file: %+v", r)
	}
}

func TestUCIExport(t *testing.T) {
	file := filepath.Join(configDir(t, "config  fastpath main\noption enabled 1"), "fastpath")
	want := "package fastpath\n\nconfig fastpath 'main'\n\toption enabled '1'\n\n"
	if r := fastpath(t, "uci", "export", file); r != (result{0, want, ""}) {
		t.Errorf("good: %+v", r)
	}
	file = filepath.Join(configDir(t, good+"option 'x\n"), "fastpath")
	fastpath(t, "uci", "export", file).oneLine(t, 1, file+":3: ")
	fastpath(t, "uci", "export", file+"-not").oneLine(t, 1, "no such file")
}

// TestFullDisk: a command whose output is lost must not say that it is done.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	dir := configDir(t, good)
	for _, args := range [][]string{{"--help"}, {"check", "--help"}, {"version"}, {"check", "--config", dir},
		{"uci", "export", filepath.Join(dir, "fastpath")}} {
		var errs bytes.Buffer
		cmd := exec.Command(binary, args...)
		cmd.Stdout, cmd.Stderr = full, &errs
		cmd.Run()
		result{cmd.ProcessState.ExitCode(), "", errs.String()}.oneLine(t, exitError, "no space left on device")
	}
}

func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"status"}, {"status", "--prometheus"}, {"flows"}, {"flush"},
		{"explain", "tcp", "192.0.2.1:1", "192.0.2.2:2"}} {
		args = slices.Insert(args, 1, "--run", dir)
		fastpath(t, args...).oneLine(t, 1, "fastpath is not running (start it: ")
	}
	if r := fastpath(t, "notify", "--run", dir, "iface", "ACTION=ifup"); r != (result{}) {
		t.Errorf("notify: %+v, want silence", r)
	}
}
