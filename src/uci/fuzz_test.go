// SPDX-License-Identifier: Apache-2.0

package uci

import (
	"bytes"
	"reflect"
	"testing"
)

// FuzzParse: no input is too much; a file that is strictly valid reads the same
// leniently and survives being exported; every line said is one of the file's.
func FuzzParse(f *testing.F) {
	for _, c := range parseCases {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		strict, faults := Parse("t", in, Strict)
		lenient, all := Parse("t", in, Lenient)
		lines := bytes.Count(in, []byte("\n")) + 1
		checkLines(t, lenient, all, lines)
		if faults != nil {
			if strict != nil || len(faults) != 1 {
				t.Fatalf("strict reading gave %v and %v", strict, faults)
			}
			return
		}
		if all != nil || !reflect.DeepEqual(strict, lenient) {
			t.Fatalf("lenient reading of a valid file differs: %v", all)
		}
		reread(t, strict)
	})
}

func checkLines(t *testing.T, p *Package, faults Errors, lines int) {
	t.Helper()
	for _, e := range faults {
		if e.Line < 0 || e.Line > lines || e.Byte < 0 || e.Reason == "" {
			t.Fatalf("impossible fault %+v in %d lines", e, lines)
		}
	}
	if p == nil {
		return
	}
	for _, sec := range p.Sections {
		if sec.Type == "" || sec.Name == "" || sec.Line < 1 || sec.Line > lines {
			t.Fatalf("impossible section %+v in %d lines", sec, lines)
		}
		for _, o := range sec.Options {
			for _, v := range o.Values {
				if v.Line < 1 || v.Line > lines || bytes.IndexByte([]byte(v.Text), 0) >= 0 {
					t.Fatalf("impossible value %+v of %s in %d lines", v, o.Name, lines)
				}
			}
		}
	}
}
