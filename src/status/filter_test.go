// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"

	"fastpath/src/state"
)

var filterFlow = state.Flow{
	Engine: state.EngineFlowtable,
	Family: "ipv4", Proto: "tcp",
	Orig:  state.Tuple{Src: "192.168.1.10", Dst: "203.0.113.5", SrcPort: 51000, DstPort: 443},
	Reply: state.Tuple{Src: "203.0.113.5", Dst: "198.51.100.7", SrcPort: 443, DstPort: 40000},
}

func TestFilter(t *testing.T) {
	for _, tt := range []struct {
		words string
		want  bool
	}{
		{"", true},
		{"tcp", true},
		{"udp", false},
		{"tcp tcp", true},
		{"ipv4", true},
		{"ipv6", false},
		{"192.168.1.10", true},
		{"192.168.1.11", false},
		{"192.168.1.0/24", true},
		{"192.168.2.0/24", false},
		{"198.51.100.7", true}, // the address after NAT
		{"port 443", true},
		{"port 51000", true},
		{"port 40000", true},
		{"port 80", false},
		{"tcp 192.168.1.10 port 443", true},
		{"udp 192.168.1.10 port 443", false},
		{"192.168.1.10 203.0.113.5", true}, // both ends
		{"192.168.1.10 203.0.113.6", false},
		{"2001:db8::/32", false},
		{"::/0", false},
		{"0.0.0.0/0", true},
		{"engine flowtable", true},
		{"engine xdp", false},
		{"engine flowtable engine flowtable tcp", true},
	} {
		f, err := ParseFilter(strings.Fields(tt.words))
		if err != nil {
			t.Errorf("%q: %v", tt.words, err)
		} else if got := f.Match(filterFlow); got != tt.want {
			t.Errorf("%q matches: %v, want %v", tt.words, got, tt.want)
		}
	}
}

func TestFilterErrors(t *testing.T) {
	for words, want := range map[string]string{
		"port":                    "needs a number",
		"port http":               `"http" is not a number`,
		"port 0":                  "from 1 to 65535",
		"port 65536":              "from 1 to 65535",
		"tcp udp":                 "either tcp or udp",
		"ipv4 ipv6":               "either ipv4 or ipv6",
		"sctp":                    `"sctp" is not`,
		"192.168.1.300":           "nor an address",
		"192.168.1.0/33":          "nor an address",
		"--json":                  `"--json" is not`,
		"engine":                  "needs one of xdp, afxdp, flowtable",
		"engine none":             "needs one of",
		"engine xdp engine afxdp": "one engine",
		"10.0.0.1 port -1":        `"-1" is not a number`,
	} {
		_, err := ParseFilter(strings.Fields(words))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want one line with %q", words, err, want)
		}
	}
}
