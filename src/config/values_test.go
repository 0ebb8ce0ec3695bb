// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestDSCP holds the names against the bits that the RFCs give.
func TestDSCP(t *testing.T) {
	want := map[string]uint8{"ef": 0b101110, "va": 0b101100, "le": 0b000001, "EF": 0b101110, "AF11": 0b001010,
		"0": 0, "63": 63, "0x2e": 46}
	for class := range uint8(8) {
		want[fmt.Sprintf("cs%d", class)] = class << 3 // RFC 2474 4.2.2: xxx000
	}
	for class := uint8(1); class <= 4; class++ { // RFC 2597 6: the class, then the drop precedence, then 0
		for drop := uint8(1); drop <= 3; drop++ {
			want[fmt.Sprintf("af%d%d", class, drop)] = class<<3 | drop<<1
		}
	}
	for v, code := range want {
		if got, ok := parseDSCP(v); !ok || got != code {
			t.Errorf("%s: %d, %v; want %d", v, got, ok, code)
		}
	}
	for _, v := range []string{"", "64", "256", "-1", "cs8", "cs", "af51", "af10", "af14", "af1", "be1", "0x", "1 "} {
		if got, ok := parseDSCP(v); ok {
			t.Errorf("%q is taken for %d", v, got)
		}
	}
}

func TestMark(t *testing.T) {
	for v, want := range map[string]Mark{
		"1":                     {true, 1, 0xffffffff},
		"0":                     {true, 0, 0xffffffff},
		"0xFFFFFFFF":            {true, 0xffffffff, 0xffffffff},
		"0x10/0xf0":             {true, 0x10, 0xf0},
		"0/0x80000000":          {true, 0, 0x80000000},
		"2147483648/2147483648": {true, 1 << 31, 1 << 31},
	} {
		if got, ok := parseMark(v); !ok || got != want {
			t.Errorf("%s: %+v, %v; want %+v", v, got, ok, want)
		}
	}
	for _, v := range []string{"", "/", "1/", "/1", "0/0", "1/0", "3/1", "1/1/1", "0x100000000", "010x", "+1", "1_0"} {
		if got, ok := parseMark(v); ok {
			t.Errorf("%q is taken for %+v", v, got)
		}
	}
}

func TestPorts(t *testing.T) {
	for v, want := range map[string]PortRange{"1": {1, 1}, "65535": {65535, 65535}, "1-65535": {1, 65535}, "80-80": {80, 80}} {
		if got, ok := parsePorts(v); !ok || got != want {
			t.Errorf("%s: %v, %v; want %v", v, got, ok, want)
		}
	}
	for _, v := range []string{"", "0", "65536", "0-1", "2-1", "1-", "-1", "1-2-3", "http", "80:90", "0x50", "+1"} {
		if got, ok := parsePorts(v); ok {
			t.Errorf("%q is taken for %v", v, got)
		}
	}
}

func TestSetName(t *testing.T) {
	for _, v := range []string{"a", "games", "Games_4", "a.b-c/d", strings.Repeat("x", 255)} {
		if !isSetName(v) {
			t.Errorf("%q is refused", v)
		}
	}
	for _, v := range []string{"", "1a", "_a", "a b", "a@b", "ä", strings.Repeat("x", 256)} {
		if isSetName(v) {
			t.Errorf("%q is taken", v)
		}
	}
}
