// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"testing"
)

const switchedOn = "config fastpath 'main'\n\toption enabled '1'\n"

var fileCases = []struct {
	name     string
	files    files
	enabled  bool
	problems []string
	notices  []string
}{
	{name: "all three", files: openwrt(switchedOn), enabled: true},
	{name: "outside OpenWrt", files: files{"fastpath": switchedOn}, enabled: true},
	{name: "none", files: files{}, problems: []string{"fastpath: no such file"}},
	{name: "empty", files: files{"fastpath": ""},
		notices: []string{"fastpath: there is no section fastpath 'main', so nothing is enabled"}},
	{
		name:     "lines that uci refuses",
		files:    files{"fastpath": switchedOn + "junk\nconfig port\n\toption device a b c\n\toption engine none\nlist\n"},
		enabled:  true,
		problems: []string{"fastpath:3: invalid command", "fastpath:5: invalid command", "fastpath:7: invalid command"},
	},
	{
		name:     "a word too many",
		files:    files{"fastpath": switchedOn + "\toption hook ingress or off\n\toption counters 7\n"},
		enabled:  true,
		problems: []string{"fastpath:3: too many arguments", "fastpath:3: invalid command", "fastpath:4: counters is '7'; it can be 1 or 0"},
	},
	{
		name:  "one name, two types",
		files: files{"fastpath": switchedOn + "config drop 'main'\n"},
		problems: []string{
			"fastpath:2: unknown option enabled; a drop section has source, file",
			"fastpath:3: section of different type overwrites prior section with same name",
		},
		notices: []string{
			"fastpath: there is no section fastpath 'main', so nothing is enabled",
			"fastpath:1: drop section 'main' has neither source nor file, so nothing is dropped",
		},
	},
	{
		name:    "other files are read as their owners do",
		files:   files{"fastpath": switchedOn, "network": "junk\n" + networkFile, "firewall": firewallFile + "config 'a b'\n"},
		enabled: true,
		notices: []string{
			"network:1: invalid command; read without it",
			"firewall:12: invalid character in type field; read without it",
		},
	},
}

func TestFiles(t *testing.T) {
	for _, c := range fileCases {
		t.Run(c.name, func(t *testing.T) {
			got, problems, notices := c.files.load(t)
			same(t, "problems", problems, c.problems)
			same(t, "notices", notices, c.notices)
			if got.Main.Enabled != c.enabled {
				t.Errorf("enabled is %v", got.Main.Enabled)
			}
		})
	}
}

func TestOverride(t *testing.T) {
	under := files{"fastpath": "config fastpath 'main'\n\toption enabled '1'\n\toption hook 'off'\n"}.dir(t)
	over := files{"fastpath": "config fastpath 'main'\n\toption counters '0'\n"}.dir(t)
	c, err := Load(Dirs{Config: under, Override: over})
	if err != nil {
		t.Fatal(err)
	}
	want := defaults
	want.Pos = Pos{File: filepath.Join(over, "fastpath"), Line: 1}
	want.Counters = false
	if c.Main != want {
		t.Errorf("got %+v, want the override alone: %+v", c.Main, want)
	}
}

// TestUnreadable: a file that is there and can't be read is a problem, not an absence.
func TestUnreadable(t *testing.T) {
	dir := openwrt("config fastpath 'main'\n").dir(t)
	for _, name := range []string{"firewall", "fastpath"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	under := files{"fastpath": "config fastpath 'main'\n\toption enabled '1'\n"}.dir(t)
	c, err := LoadLenient(Dirs{Config: under, Override: dir}) // the file that can't be read is named
	problems, _ := err.(Problems)
	same(t, "problems", texts(dir, problems), []string{
		"firewall: can't be read: not a regular file",
		"fastpath: can't be read: not a regular file",
	})
	if c.Main != defaults || len(c.Interfaces) == 0 {
		t.Errorf("what could be read was lost: %+v", c)
	}
}
