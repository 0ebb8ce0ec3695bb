// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const mainOnly = "config fastpath main\n"

// writeDrop writes a list and gives a configuration with a section that names it.
func writeDrop(t testing.TB, path, text string) Config {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return Config{Drops: []Drop{{Name: "a", File: path}}}
}

func printSources(s Sources) (lines []string) {
	for _, r := range s.V4 {
		lines = append(lines, netip.AddrFrom4(r[0]).String()+"-"+netip.AddrFrom4(r[1]).String())
	}
	for _, r := range s.V6 {
		lines = append(lines, netip.AddrFrom16(r[0]).String()+"-"+netip.AddrFrom16(r[1]).String())
	}
	return lines
}

func TestDropLists(t *testing.T) {
	for _, tt := range []struct{ name, text, sources, problems string }{
		{name: "empty"},
		{name: "comments and line ends", text: "# a list\r\n\r\n 192.0.2.1\t# one\r\n2001:db8::/32#x\n198.51.100.0/24",
			sources: "192.0.2.1-192.0.2.1 198.51.100.0-198.51.100.255 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"},
		{name: "merged", text: "192.0.2.128/25\n192.0.2.0/25\n192.0.2.7\n192.0.3.0\n192.0.3.2\n192.0.3.0\n",
			sources: "192.0.2.0-192.0.3.0 192.0.3.2-192.0.3.2"},
		{name: "the last of all", text: "255.255.255.255\n255.0.0.0/8\n254.255.255.255\nffff::/16\nffff:ffff::1\n",
			sources: "254.255.255.255-255.255.255.255 ffff::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		{name: "host bits", text: "192.0.2.77/24\n", sources: "192.0.2.0-192.0.2.255"},
		{name: "broken", text: "192.0.2.1\nhello\n0.0.0.0/0\n::/0\n300.1.1.1\n192.0.2.1/33\n::ffff:192.0.2.1\nfe80::1%eth0\n192.0.2.3\n",
			sources: "192.0.2.1-192.0.2.1 192.0.2.3-192.0.2.3",
			problems: "LIST:2: 'hello' is no address and no prefix from /1 on|LIST:3: '0.0.0.0/0' is no address and no prefix from /1 on|" +
				"LIST:4: '::/0' is no address and no prefix from /1 on|LIST: 7 broken lines in all; they are left out"},
		{name: "long lines", text: strings.Repeat("x", 9000) + "\n192.0.2.1\n192.0.2.2 #" + strings.Repeat("y", 9000) + "\n",
			sources: "192.0.2.1-192.0.2.2", problems: "LIST:1: the line is longer than 512 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "list")
			c := writeDrop(t, path, tt.text)
			new(DropLists).Fill(&c)
			if got := strings.Join(printSources(c.Sources), " "); got != tt.sources {
				t.Errorf("%s, want %s", got, tt.sources)
			}
			if got := strings.ReplaceAll(strings.Join(c.DropProblems, "|"), path, "LIST"); got != tt.problems {
				t.Errorf("%s, want %s", got, tt.problems)
			}
		})
	}
}

// TestDropListsKept: what can't be read doesn't undo what was.
func TestDropListsKept(t *testing.T) {
	var l DropLists
	path := filepath.Join(t.TempDir(), "list")
	c := writeDrop(t, path, "192.0.2.1\n")
	expect := func(sources string, problems int) {
		t.Helper()
		l.Fill(&c)
		if got := strings.Join(printSources(c.Sources), " "); got != sources || len(c.DropProblems) != problems {
			t.Fatalf("%s, want %s; %v", got, sources, c.DropProblems)
		}
	}
	const one = "192.0.2.1-192.0.2.1"
	expect(one, 0)
	expect(one, 0)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect(one, 2)
	expect(one, 2) // still told
	writeDrop(t, path, "192.0.2.2\n")
	expect("192.0.2.2-192.0.2.2", 0)
	writeDrop(t, path, "192.0.2.3\n") // of the same size, perhaps in the same tick
	if err := os.Chtimes(path, time.Now(), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	expect("192.0.2.3-192.0.2.3", 0)
	var many bytes.Buffer
	for i := range maxSources + 1 {
		fmt.Fprintf(&many, "10.%d.%d.%d\n", i>>15, i>>7&255, i<<1&255)
	}
	writeDrop(t, path, many.String())
	expect("192.0.2.3-192.0.2.3", 1)
	text := many.String()
	writeDrop(t, path, text[:strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n")])
	if l.Fill(&c); len(c.Sources.V4) != maxSources || c.DropProblems != nil {
		t.Fatalf("%d entries, %v", len(c.Sources.V4), c.DropProblems)
	}
	c.Drops = []Drop{{Name: "a", File: filepath.Join(t.TempDir(), "none"), Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")}}}
	expect("192.0.2.9-192.0.2.9", 1) // another section: its own sources at least
}

// TestDropListLong: a million lines, in bounded memory, whether they merge or not.
func TestDropListLong(t *testing.T) {
	for _, tt := range []struct {
		name string
		step int
		want int
	}{{"neighbours", 1, 1}, {"apart", 2, 0}} {
		var text bytes.Buffer
		for i := range 1_000_000 {
			n := i * tt.step
			fmt.Fprintf(&text, "10.%d.%d.%d\r\n", n>>16, n>>8&255, n&255)
		}
		path := filepath.Join(t.TempDir(), "list")
		c := writeDrop(t, path, text.String())
		start := time.Now()
		new(DropLists).Fill(&c)
		if len(c.Sources.V4) != tt.want || (tt.want == 0) != (len(c.DropProblems) == 1) {
			t.Errorf("%s: %d entries, %v", tt.name, len(c.Sources.V4), c.DropProblems)
		}
		t.Log(tt.name, time.Since(start))
	}
}

// FuzzDropList: a list against a slow reader: an address is in the ranges if and only
// if a line has it.
func FuzzDropList(f *testing.F) {
	f.Add("192.0.2.0/24\n192.0.3.1 # x\r\n", "192.0.2.9")
	f.Add("::1\nffff::/16\n\n2001:db8::/127\n2001:db8::2\n", "2001:db8::3")
	f.Fuzz(func(t *testing.T, text, probe string) {
		var g gather
		if _, err := readList(strings.NewReader(text), &g, func(int, string) {}); err != nil {
			t.Fatal(err)
		}
		g.merge()
		var listed []netip.Prefix
		for line := range strings.SplitSeq(text, "\n") {
			before, _, _ := strings.Cut(line, "#")
			if p, ok := parseSource(strings.TrimSpace(before)); ok && len(line) < longestLine {
				listed = append(listed, p)
			}
		}
		probes := []netip.Addr{netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("::")}
		if a, err := netip.ParseAddr(probe); err == nil && a.Zone() == "" && !a.Is4In6() {
			probes = append(probes, a)
		}
		for _, p := range listed {
			probes = append(probes, p.Addr(), p.Addr().Prev(), p.Addr().Next())
		}
		for _, a := range probes {
			in := slices.ContainsFunc(listed, func(p netip.Prefix) bool { return p.Contains(a) })
			if a.IsValid() && in != g.has(a) {
				t.Errorf("%v: listed %v, in the ranges %v", a, in, !in)
			}
		}
	})
}

// has looks one range after the other, and that they are in order with gaps.
func (g *gather) has(a netip.Addr) (has bool) {
	check := func(first, last, before netip.Addr) netip.Addr {
		if first.Compare(last) > 0 || before.IsValid() && before.Next().Compare(first) >= 0 {
			panic(fmt.Sprint("no order: ", before, first, last))
		}
		has = has || first.Compare(a) <= 0 && a.Compare(last) <= 0
		return last
	}
	var before netip.Addr
	for _, r := range g.V4 {
		before = check(netip.AddrFrom4(r[0]), netip.AddrFrom4(r[1]), before)
	}
	before = netip.Addr{}
	for _, r := range g.V6 {
		before = check(netip.AddrFrom16(r[0]), netip.AddrFrom16(r[1]), before)
	}
	return has
}
