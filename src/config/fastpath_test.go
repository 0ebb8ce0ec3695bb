// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"path/filepath"
	"reflect"
	"testing"
)

// with is the defaults with a change.
func with(change func(*Main)) Main {
	m := defaults
	change(&m)
	return m
}

var mainCases = []struct {
	name     string
	text     string // of section main, from line 2
	want     Main   // without its place
	problems []string
	notices  []string
}{
	{name: "defaults", want: Main{Hook: "auto", HookNumber: 2, CTMark: 1 << 30, SourceValidation: "off", Counters: true}},
	{
		name: "everything",
		text: "option enabled yes\noption hook early_ingress\noption hook_number 3\noption ct_mark 0x80\n" +
			"option source_validation strict\noption counters off\noption defer_packets 5\n",
		want: Main{Enabled: true, Hook: "early_ingress", HookNumber: 3, CTMark: 0x80,
			SourceValidation: "strict", DeferPackets: 5},
		notices: []string{"fastpath:5: ct_mark has no effect while no port has engine xdp or afxdp"},
	},
	{
		name:     "a boolean that is none",
		text:     "option enabled maybe\n",
		want:     defaults,
		problems: []string{"fastpath:2: enabled is 'maybe'; it can be 1 or 0"},
	},
	{
		name: "every value is wrong",
		text: "option enabled ''\noption hook egress\noption hook_number two\noption ct_mark 0x3\n" +
			"option source_validation 1\noption counters -1\noption defer_packets 70000\n",
		// Line 2 is no fault: an empty option is not there.
		want: with(func(m *Main) { m.Hook = "off"; m.DeferPackets = 1 }),
		problems: []string{
			"fastpath:3: hook is 'egress'; it can be auto, early_ingress, ingress or off",
			"fastpath:4: hook_number is 'two', which is no number",
			"fastpath:5: ct_mark is 0x3; it must be exactly one bit",
			"fastpath:6: source_validation is '1'; it can be off, loose or strict",
			"fastpath:7: counters is '-1'; it can be 1 or 0",
			"fastpath:8: defer_packets is 70000; it can be 0 to 65535",
		},
		notices: []string{"fastpath:4: hook_number has no effect with hook off", "fastpath:5: ct_mark has no effect while no port has engine xdp or afxdp"},
	},
	{
		name:     "numbers that are taken or too large",
		text:     "option hook_number 1\noption ct_mark 0x100000000\n",
		want:     defaults,
		problems: []string{"fastpath:2: hook_number is 1, but 0 is ingress and 1 is egress", "fastpath:3: ct_mark is '0x100000000', which is no number"},
		notices:  []string{"fastpath:3: ct_mark has no effect while no port has engine xdp or afxdp"},
	},
	{
		name:     "no bit at all",
		text:     "option hook_number 0\noption ct_mark 0\nconfig port\noption device eth0\noption engine xdp\n",
		want:     defaults,
		problems: []string{"fastpath:2: hook_number is 0, but 0 is ingress and 1 is egress", "fastpath:3: ct_mark is 0x0; it must be exactly one bit"},
	},
	{
		name: "lists and unknown options",
		text: "list enabled 1\nlist hook auto\nlist hook_number 2\noption hok auto\nlist other x\nlist other y\n",
		want: with(func(m *Main) { m.Hook = "off" }),
		problems: []string{
			"fastpath:2: enabled takes one value (option), not a list",
			"fastpath:3: hook takes one value (option), not a list",
			"fastpath:4: hook_number takes one value (option), not a list",
			"fastpath:5: unknown option hok; a fastpath section has enabled, hook, hook_number, ct_mark, source_validation, counters, defer_packets",
			"fastpath:7: unknown option other; a fastpath section has enabled, hook, hook_number, ct_mark, source_validation, counters, defer_packets",
		},
		notices: []string{"fastpath:4: hook_number has no effect with hook off"},
	},
	{
		name: "other sections",
		text: "config fastpath\noption enabled 1\nconfig fastpath second\nconfig prot p\noption device eth0\n",
		want: defaults,
		problems: []string{
			"fastpath:2: the section fastpath must be named 'main', and there is only one",
			"fastpath:4: the section fastpath must be named 'main', and there is only one",
			"fastpath:5: unknown section type prot; it can be fastpath, port, policy or drop",
		},
	},
	{name: "twice the same name is one section", text: "option counters 0\nconfig fastpath main\noption enabled 1\n",
		want: with(func(m *Main) { m.Enabled = true; m.Counters = false })},
}

func TestMainSection(t *testing.T) {
	for _, c := range mainCases {
		t.Run(c.name, func(t *testing.T) {
			got, problems, notices := openwrt("config fastpath 'main'\n" + c.text).load(t)
			same(t, "problems", problems, c.problems)
			same(t, "notices", notices, c.notices)
			if got.Main.Pos.Line != 1 {
				t.Errorf("main is in line %d", got.Main.Pos.Line)
			}
			if m := bare(got.Main); m != c.want {
				t.Errorf("got  %+v\nwant %+v", m, c.want)
			}
		})
	}
}

func TestMainWithoutName(t *testing.T) {
	got, problems, notices := openwrt("config fastpath\n\toption enabled 1\n").load(t)
	same(t, "problems", problems, []string{"fastpath:1: the section fastpath must be named 'main', and there is only one"})
	same(t, "notices", notices, nil)
	if got.Main != defaults {
		t.Errorf("got %+v", got.Main)
	}
}

func TestDrop(t *testing.T) {
	for _, c := range []struct {
		name     string
		text     string
		want     []Drop
		problems []string
		notices  []string
	}{
		{
			name: "sources",
			text: "config drop abuse\nlist source 198.51.100.7/24\nlist source 2001:db8::1\n",
			want: []Drop{{Name: "abuse", Sources: prefixes("198.51.100.0/24", "2001:db8::1/128")}},
		},
		{
			name: "in one option", text: "config drop\nconfig drop\noption source '192.0.2.1 192.0.2.2'\n",
			want:    []Drop{{Name: "@drop[0]"}, {Name: "@drop[1]", Sources: prefixes("192.0.2.1/32", "192.0.2.2/32")}},
			notices: []string{"fastpath:1: drop section '@drop[0]' has neither source nor file, so nothing is dropped"},
		},
		{
			name:    "a file that comes later",
			text:    "config drop a\noption file /nowhere/list\n",
			want:    []Drop{{Name: "a", File: "/nowhere/list"}},
			notices: []string{"fastpath:2: file '/nowhere/list' can't be read now: no such file or directory"},
		},
		{
			name: "faults",
			text: "config drop a\nlist source example.org\nlist source 192.0.2.1\nlist source ::/0\nlist source fe80::1%eth0\n" +
				"list source ::ffff:192.0.2.1\noption file abuse.list\noption fil x\nconfig drop b\noption file /\n",
			want: []Drop{{Name: "a", Sources: prefixes("192.0.2.1/32")}, {Name: "b"}},
			problems: []string{
				"fastpath:2: source 'example.org' is not an address or a prefix from /1 on",
				"fastpath:4: source '::/0' is not an address or a prefix from /1 on",
				"fastpath:5: source 'fe80::1%eth0' is not an address or a prefix from /1 on",
				"fastpath:6: source '::ffff:192.0.2.1' is not an address or a prefix from /1 on",
				"fastpath:7: file 'abuse.list' must be an absolute path",
				"fastpath:8: unknown option fil; a drop section has source, file",
				"fastpath:10: file '/' is not a regular file",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, problems, notices := openwrt(c.text + "config fastpath main\n").load(t)
			same(t, "problems", problems, c.problems)
			same(t, "notices", notices, c.notices)
			if d := bare(got.Drops); !reflect.DeepEqual(d, c.want) {
				t.Errorf("got  %+v\nwant %+v", d, c.want)
			}
		})
	}
}

func TestDropFile(t *testing.T) {
	list := filepath.Join(files{"list": "192.0.2.1\n"}.dir(t), "list")
	got, problems, notices := openwrt("config fastpath main\nconfig drop a\noption file " + list + "\n").load(t)
	same(t, "problems", problems, nil)
	same(t, "notices", notices, nil)
	if len(got.Drops) != 1 || got.Drops[0].File != list {
		t.Errorf("got %+v", got.Drops)
	}
}

func prefixes(all ...string) (p []netip.Prefix) {
	for _, one := range all {
		p = append(p, netip.MustParsePrefix(one))
	}
	return p
}
