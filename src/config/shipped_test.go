// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"fastpath/src/uci"
)

const shippedFile = "../../uci/fastpath"

func shipped(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(shippedFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestShipped: as it is installed, the file is valid, on OpenWrt and elsewhere,
// changes nothing and says what the defaults are.
func TestShipped(t *testing.T) {
	for _, f := range []files{openwrt(shipped(t)), {"fastpath": shipped(t)}} {
		c, problems, notices := f.load(t)
		same(t, "problems", problems, nil)
		same(t, "notices", notices, nil)
		if bare(c.Main) != defaults || c.Ports != nil || c.Policies != nil || c.Drops != nil {
			t.Errorf("more than the defaults: %+v", c)
		}
	}
}

// statement is an option that a comment holds ready.
var statement = regexp.MustCompile(`(?m)^#(\t(option|list) |config )`)

// TestShippedUncommented: everything that the file offers can be taken as it
// stands. For section main that is the defaults.
func TestShippedUncommented(t *testing.T) {
	text := statement.ReplaceAllString(shipped(t), "$1")
	c, problems, notices := openwrt(text).load(t)
	same(t, "problems", problems, nil)
	for _, n := range notices {
		if !strings.Contains(n, "has no effect") && !strings.Contains(n, "can't be read now") {
			t.Errorf("unexpected notice %s", n)
		}
	}
	if bare(c.Main) != defaults {
		t.Errorf("main is %+v, the defaults are %+v", c.Main, defaults)
	}
	want := []Port{{Networks: []string{"wan"}, Engine: EngineFlowtable, XDPMode: XDPNative, Receive: ReceiveAuto}}
	if got := bare(c.Ports); !reflect.DeepEqual(got, want) {
		t.Errorf("port is %+v, the defaults are %+v", got, want)
	}
	if len(c.Policies) != 1 || len(c.Drops) != 1 {
		t.Errorf("%d policies and %d drop sections", len(c.Policies), len(c.Drops))
	}
}

// TestShippedIsComplete: the file offers each option that its sections know.
func TestShippedIsComplete(t *testing.T) {
	text := statement.ReplaceAllString(shipped(t), "$1")
	p, faults := uci.Parse(shippedFile, []byte(text), uci.Strict)
	if faults != nil {
		t.Fatal(faults)
	}
	offered := map[string]map[string]bool{"port": {"device": true}} // in words: it excludes network
	for _, s := range p.Sections {
		for _, o := range s.Options {
			if offered[s.Type] == nil {
				offered[s.Type] = map[string]bool{}
			}
			offered[s.Type][o.Name] = true
		}
	}
	if !strings.Contains(text, "option device '") {
		t.Error("option device is not mentioned")
	}
	_, problems, _ := openwrt("config fastpath main\noption x x\nconfig port\noption x x\nconfig policy\noption x x\nconfig drop\noption x x\n").load(t)
	found := 0
	for _, p := range problems {
		kind, known, ok := strings.Cut(strings.TrimPrefix(p[strings.Index(p, ": ")+2:], "unknown option x; a "), " section has ")
		if !ok {
			continue
		}
		found++
		for _, name := range strings.Split(known, ", ") {
			if !offered[kind][name] {
				t.Errorf("%s offers no option %s of section %s", filepath.Base(shippedFile), name, kind)
			}
		}
	}
	if found != 4 {
		t.Errorf("asked 4 kinds of section what they know, %d answered: %v", found, problems)
	}
}
