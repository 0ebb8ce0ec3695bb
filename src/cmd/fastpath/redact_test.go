// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	secrets := []string{"bob@isp.example", "bob"}
	for text, want := range map[string]string{
		"":                                         "",
		"user bob@isp.example, bob":                "user (left out), (left out)",
		"mac 02:1a:2b:3c:4d:5e up":                 "mac 02:1a:2b:xx:xx:xx up",
		"AA:BB:CC:DD:EE:FF.":                       "AA:BB:CC:xx:xx:xx.",
		"8.8.4.4:53 [2606:4700::1111]:443":         "8.8.x.x:53 [2606:4700:x]:443",
		"198.51.100.7/24,10.1.2.3,192.168.1.1":     "198.51.x.x/24,10.1.2.3,192.168.1.1",
		"100.64.0.9 169.254.1.1 192.0.0.2 0.0.0.0": "100.64.0.9 169.254.1.1 192.0.0.2 0.0.0.0",
		"fe80::21a:2bff:fe3c:4d5e%eth0 ff02::1 ::": "fe80:x%eth0 ff02::1 ::",
		"fd12:3456:789a::1, ::1":                   "fd12:3456:x, ::1",
		"::ffff:203.0.113.9 dst=203.0.113.9":       "203.0.x.x dst=203.0.x.x",
		"2001:db8:1:2:3:4:5:6.":                    "2001:db8:x.",
		"1.1.1.1-9.9.9.9":                          "1.1.x.x-9.9.x.x",
		"kernel 6.12.117+deb12-amd64, eth0.35":     "kernel 6.12.117+deb12-amd64, eth0.35",
		"2026-12-01T02:43:13Z took 00:00:05":       "2026-12-01T02:43:13Z took 00:00:05",
		"tcp 0 face:b00k 1:2 a.b.c.d":              "tcp 0 face:b00k 1:2 a.b.c.d",
		"network:3: no such file":                  "network:3: no such file",
		"\xff\xfe 9.9.9.9\n\t9.9.9.9":              "\xff\xfe 9.9.x.x\n\t9.9.x.x",
	} {
		if got := redact(text, secrets); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// FuzzRedact: nothing that can be found whole in the text before is left of an
// address that stands alone, and cutting twice changes nothing.
func FuzzRedact(f *testing.F) {
	f.Add("a 203.0.113.9:80 b")
	f.Add("02:1a:2b:3c:4d:5e")
	f.Fuzz(func(t *testing.T, text string) {
		once := redact(text, nil)
		if twice := redact(once, nil); twice != once {
			t.Errorf("%q, then %q", once, twice)
		}
		for _, public := range []string{"203.0.113.9", "2001:db8:aa::1", "02:1a:2b:3c:4d:5e"} {
			if got := redact(text+" "+public+" "+text, nil); strings.Contains(got, " "+public+" ") {
				t.Errorf("%s is left in %q", public, got)
			}
		}
	})
}
