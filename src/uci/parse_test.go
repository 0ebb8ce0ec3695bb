// SPDX-License-Identifier: Apache-2.0

package uci

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const s = "config t s\n" // what most cases begin with

// parseCases are the corners of the language; want, fault and kept are what the
// real program (openwrt/uci 66127cd) answers.
var parseCases = []struct {
	name  string
	in    string
	want  string   // show -X without the package's name; lenient only, if there are faults
	fault string   // of strict reading: line:byte: reason
	kept  []string // all faults of lenient reading
}{
	{name: "nothing", in: ""},
	{name: "only comments and blanks", in: "# a\n \t\n\n  # config t s\n"},
	{name: "plain", in: s + "\toption a 1\n", want: "s=t|s.a='1'"},
	{name: "no newline at the end", in: s + "option a 1", want: "s=t|s.a='1'"},
	{name: "short keywords", in: "p x\nc t s\no a 1\nl b 2\n", want: "s=t|s.a='1'|s.b='2'"},
	{name: "anonymous", in: "config t\n", want: "cfg01b619=t"},
	{name: "anonymous by an empty name", in: "config t ''\n", want: "cfg01b619=t"},
	{name: "anonymous sections count the others", in: s + "config t\n", want: "s=t|cfg02b619=t"},
	{name: "an anonymous one under its real name", in: "config t\nconfig t cfg01b619\noption b 2\n", want: "cfg01b619=t|cfg01b619.b='2'"},
	{name: "a name taken by hand", in: "config t cfg02b619\nconfig t\n", want: "cfg02b619=t|cfg02b619=t"},
	{name: "odd type", in: "config my-type.v2+x s\n", want: "s=my-type.v2+x"},
	{name: "quotes in a type", in: `config a"'"b#c s` + "\n", want: "cfg0154ef=a'b"},
	{name: "type with a blank", in: "config 'a b' s\n", fault: "1:13: " + badType, kept: []string{"1:13: " + badType}},

	{name: "single quotes are literal", in: s + `option a 'x\n"y'` + "\n", want: `s=t|s.a='x\n"y'`},
	{name: "backslash keeps the next", in: s + `option a "x\n\"y\\"` + "\n", want: `s=t|s.a='xn"y\'`},
	{name: "bare backslash", in: s + `option a x\ y\'` + "\n", want: `s=t|s.a='x y'\'''`},
	{name: "glued quotes", in: s + `option a x'y "'"'z"` + "\n", want: `s=t|s.a='xy "'\''z'`},
	{name: "quoted names", in: "config 't' \"s\"\noption 'a' 1\n", want: "s=t|s.a='1'"},
	{name: "newline in quotes", in: s + "option a 'x\n# y\n'\n", want: "s=t|s.a='x\n# y\n'"},
	{name: "joined in double quotes", in: s + "option a \"\\\n x\"\n", want: "s=t|s.a=' x'"},
	{name: "joined", in: s + "option a x\\\ny\n", want: "s=t|s.a='xy'"},
	{name: "joined over CR LF", in: s + "option a x\\\r\ny\r\n", want: "s=t|s.a='xy'"},
	{name: "joined with an indented line", in: s + "option a x\\\n\ty\n", fault: "3:14: " + tooMany, want: "s=t|s.a='x'"},
	{name: "backslash at the end", in: s + "option a x\\", want: "s=t|s.a='x'"},
	{name: "CR in quotes", in: s + "option a 'x\r\n'\r\n", want: "s=t|s.a='x\r\n'"},
	{name: "open quote", in: s + "option a 'x\ny\n", fault: "3:14: " + openSingle, want: "s=t", kept: []string{"3:14: " + openSingle}},
	{name: "open double quote", in: s + "option a \"x", fault: "1:11: " + openDouble, want: "s=t", kept: []string{"1:11: " + openDouble}},

	{name: "comment glued to a word", in: s + "option a e#f\n", want: "s=t|s.a='e'"},
	{name: "comment isn't joined", in: s + "option a 1 # x\\\noption b 2\n", want: "s=t|s.a='1'|s.b='2'"},
	{name: "semicolon after a bare word", in: s + "option a 1;option b 2\n", want: "s=t|s.a='1'"},
	{name: "semicolon after a quote", in: s + "option a '1';option b 2\n", want: "s=t|s.a='1'|s.b='2'"},
	{name: "semicolon after an escape", in: s + `option a \1;option b 2` + "\n", want: "s=t|s.a='1'|s.b='2'"},
	{name: "semicolon after a blank", in: s + "option a 1 ; option b 2\n", want: "s=t|s.a='1'|s.b='2'"},
	{name: "semicolon for a value", in: s + "option a ; option b 2\n", fault: "2:18: " + tooMany, want: "s=t", kept: []string{"2:18: " + badCommand}},
	{name: "empty statement", in: s + "option a '1';\n", fault: "2:13: " + badCommand, want: "s=t|s.a='1'", kept: []string{"2:13: " + badCommand}},
	{name: "only one hides", in: s + "option a 1;\n", want: "s=t|s.a='1'"},

	{name: "twice", in: s + "option a 1\noption b 2\noption a 3\n", want: "s=t|s.a='3'|s.b='2'"},
	{name: "option, then list", in: s + "option a 1\nlist a 2\n", want: "s=t|s.a='1' '2'"},
	{name: "list, then option", in: s + "list a 1\nlist a 2\noption a 3\n", want: "s=t|s.a='3'"},
	{name: "empty values", in: s + "list a 1\nlist a ''\noption a ''\nlist b\noption c\n", want: "s=t|s.a='1' ''|s.b=''"},
	{name: "merged", in: s + "option a 1\nconfig u v\nconfig t s\noption b 2\n", want: "s=t|s.a='1'|s.b='2'|v=u"},
	{name: "other type, same length", in: "config t\nconfig u cfg01b619\n", fault: "2:19: " + typeChanged, want: "cfg01b619=u"},
	{name: "other type", in: s + "option a 1\nconfig tt s\noption b 2\n", fault: "3:12: " + typeChanged, want: "s=tt|s.a='1'|s.b='2'"},

	{name: "keyword alone", in: "config\n", fault: "1:0: " + badCommand, kept: []string{"1:0: " + badCommand}},
	{name: "keyword and a blank", in: "config \n", fault: "1:8: " + tooFew, kept: []string{"1:8: " + tooFew}},
	{name: "keyword at the end", in: s + "  list", fault: "1:2: option without name", want: "s=t", kept: []string{"1:2: option without name"}},
	{name: "no line is complete", in: "config", fault: "0:0: config without name", kept: []string{"0:0: config without name"}},
	{name: "upper case", in: "Config t s\n", fault: "1:0: " + badCommand, kept: []string{"1:0: " + badCommand}},
	{name: "vertical tab", in: s + "option\va 1\n", fault: "2:0: " + badCommand, want: "s=t", kept: []string{"2:0: " + badCommand}},
	{name: "form feed between words", in: s + "option \va\f1\n", want: "s=t|s.a='1'"},
	{name: "byte order mark", in: "\ufeff" + s, fault: "1:0: " + badCommand, kept: []string{"1:0: " + badCommand}},
	{name: "orphan", in: "\toption a 1\n", fault: "1:1: " + orphan, kept: []string{"1:1: " + orphan}},
	{name: "dash in a name", in: s + "option a-b 1\n", fault: "2:11: " + badName, want: "s=t", kept: []string{"2:11: " + badName}},
	{name: "package with a dot", in: "package a-b\npackage a.b\n", fault: "2:12: " + badName, kept: []string{"2:12: " + badName}},
	{name: "one word too many", in: s + "option a 1 2\n", fault: "2:13: " + tooMany, want: "s=t|s.a='1'"},
	{name: "three too many", in: s + "option a b c d\noption e f\n", fault: "2:13: " + tooMany, want: "s=t|s.a='b'|s.e='f'", kept: []string{"2:13: " + badCommand}},
	{name: "options of a refused section go to the one before", in: s + "config u a-b\noption a 1\n", fault: "2:13: " + badName, want: "s=t|s.a='1'", kept: []string{"2:13: " + badName}},

	{name: "NUL in quotes", in: s + "option a 'x\x00y'\n z'\n", want: "s=t|s.a='x z'"},
	{name: "NUL in a bare word", in: s + "option a x\x00y\n option b 2\n", fault: "2:18: " + tooMany, want: "s=t|s.a='x'", kept: []string{"2:18: " + badCommand}},
	{name: "NUL at the beginning", in: "\x00config t s\nconfig u\n", want: "cfg01b61a=u"},
	{name: "more NUL than memory", in: strings.Repeat("a\x00\n", 40), fault: "0:0: " + tooLong, kept: []string{"0:0: " + tooLong}},
}

func TestParse(t *testing.T) {
	for _, c := range parseCases {
		t.Run(c.name, func(t *testing.T) {
			strict, faults := Parse("/etc/config/t", []byte(c.in), Strict)
			if got := faultLines(faults); strings.Join(got, "|") != c.fault {
				t.Errorf("strict faults %q, want %q", got, c.fault)
			}
			if (strict == nil) != (c.fault != "") {
				t.Errorf("strict package %v with faults %v", strict, faults)
			}
			lenient, faults := Parse("/etc/config/t", []byte(c.in), Lenient)
			if got := faultLines(faults); !reflect.DeepEqual(got, c.kept) {
				t.Errorf("lenient faults %q, want %q", got, c.kept)
			}
			for _, p := range []*Package{strict, lenient} {
				if p != nil && flat(p) != c.want {
					t.Errorf("got  %q\nwant %q", flat(p), c.want)
				}
			}
		})
	}
}

func faultLines(faults Errors) (lines []string) {
	for _, e := range faults {
		lines = append(lines, fmt.Sprintf("%d:%d: %s", e.Line, e.Byte, e.Reason))
	}
	return lines
}

// flat is show -X with | for the ends of lines and without the package's name.
func flat(p *Package) string {
	out := strings.TrimSuffix(show(p, true), "\n")
	out = strings.TrimPrefix(strings.ReplaceAll("\n"+out, "\nt.", "|"), "|")
	return strings.TrimPrefix(out, "\n")
}

// TestErrorText: what a person reads has the file and the line.
func TestErrorText(t *testing.T) {
	_, faults := Parse("/etc/config/t", []byte(s+"\nconfig\nlist\n"), Lenient)
	want := "/etc/config/t:3: invalid command\n/etc/config/t:4: invalid command"
	if got := faults.Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLines: each section and value knows the line in which its statement begins.
func TestLines(t *testing.T) {
	in := "# a\nconfig t s\n" + // 2
		"\toption a 'x\ny'\n" + // 3, 4
		"\toption b \\\n\n" + // 5, 6
		"\toption b 1 ; list c 'x\n' ; list c y\n" + // 7, 8
		"\toption a 2\n" + // 9
		"config t s\n\toption d 3" // 10, 11
	p, faults := Parse("t", []byte(in), Strict)
	if faults != nil {
		t.Fatal(faults)
	}
	got := map[string]int{"s": p.Sections[0].Line}
	for _, o := range p.Sections[0].Options {
		for i, v := range o.Values {
			got[fmt.Sprint(o.Name, i)] = v.Line
		}
	}
	want := map[string]int{"s": 2, "a0": 9, "b0": 7, "c0": 7, "c1": 8, "d0": 11}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("lines %v, want %v", got, want)
	}
}
