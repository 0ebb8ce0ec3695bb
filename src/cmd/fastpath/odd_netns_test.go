// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// odd are names that the kernel takes and that try everybody's quoting. It
// refuses blanks, slashes, and a % but in %d, which it makes a number.
var odd = []string{`a"b'\{};,#$&*@`, "lån-Etherne-é", "-+!()[]<>~`^|=x", "\xff\xfe\x01", "15-bytes-long-x"}

// metric is one line of Prometheus' text format.
var metric = regexp.MustCompile(`^[a-z_]+(\{[a-z_]+="(\\[\\"n]|[^"\\\n])*"(,[a-z_]+="(\\[\\"n]|[^"\\\n])*")*\})? [-+0-9.e]+$`)

// TestOddNames: ports of any name are set, shown by each command, and given back.
func TestOddNames(t *testing.T) {
	p := newProc(t)
	text := good
	for _, name := range odd {
		if out, err := p.ns.Command("ip", "link", "add", "name", name, "type", "veth").CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", name, err, out)
		}
		text += "config port\n\toption device '" + strings.ReplaceAll(name, "'", `'\''`) + "'\n\toption receive 'fraglist'\n"
	}
	if err := os.WriteFile(filepath.Join(p.config, "fastpath"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	features := func(name string) string {
		out, err := p.ns.Command("ethtool", "-k", name).CombinedOutput()
		if err != nil {
			t.Fatalf("ethtool %q: %v: %s", name, err, out)
		}
		return string(out)
	}
	before := map[string]string{}
	for _, name := range odd {
		before[name] = features(name)
	}
	p.start()
	for _, name := range odd {
		if !strings.Contains(features(name), "rx-gro-list: on") {
			t.Errorf("%q has no fraglist GRO; log:\n%s", name, p.log.String())
		}
	}
	p.showOdd(t)
	p.signal(15)
	if code := p.ended(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for _, name := range odd {
		if features(name) != before[name] {
			t.Errorf("%q isn't as it was:\n%s", name, features(name))
		}
	}
}

// showOdd asks each command.
func (p *proc) showOdd(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"report", "--config", p.config}, {"plan", "--config", p.config}} {
		r := p.inside(append(args, "--run", p.run)...)
		if r.code != exitOK {
			t.Errorf("%v: %+v", args, r)
		}
		for _, name := range odd {
			if args[0] == "plan" || strings.Contains(r.stdout, name) || !utf8.ValidString(name) {
				continue
			}
			if quoted, _ := json.Marshal(name); !strings.Contains(r.stdout, string(quoted)) {
				t.Errorf("%v doesn't name %q:\n%s", args, name, r.stdout)
			}
		}
	}
	var document map[string]any
	if err := json.Unmarshal([]byte(p.inside("status", "--json", "--run", p.run).stdout), &document); err != nil {
		t.Errorf("status --json: %v", err)
	}
	for _, line := range strings.Split(strings.TrimSpace(p.inside("status", "--prometheus", "--run", p.run).stdout), "\n") {
		if !utf8.ValidString(line) || !strings.HasPrefix(line, "#") && !metric.MatchString(line) {
			t.Errorf("no metric: %q", line)
		}
	}
	if r := p.inside("notify", "--run", p.run, "net", "INTERFACE="+odd[0]); r != (result{}) {
		t.Errorf("notify: %+v", r)
	}
}
