// SPDX-License-Identifier: Apache-2.0

package status

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseTuple(t *testing.T) {
	ends := func(a, b string) [2]netip.AddrPort {
		return [2]netip.AddrPort{netip.MustParseAddrPort(a), netip.MustParseAddrPort(b)}
	}
	for words, want := range map[string]Tuple{
		"tcp 192.168.1.20:51000 93.184.216.34:443":      {"tcp", ends("192.168.1.20:51000", "93.184.216.34:443")},
		"192.168.1.20:51000 udp 93.184.216.34:443":      {"udp", ends("192.168.1.20:51000", "93.184.216.34:443")},
		"[2001:db8::1]:5000 [2001:db8:1::2]:443 tcp":    {"tcp", ends("[2001:db8::1]:5000", "[2001:db8:1::2]:443")},
		"udp [::ffff:192.168.1.20]:1 93.184.216.34:443": {"udp", ends("192.168.1.20:1", "93.184.216.34:443")},
	} {
		if got, err := ParseTuple(strings.Fields(words)); err != nil || got != want {
			t.Errorf("%q: %+v, %v", words, got, err)
		}
	}
	for words, want := range map[string]string{
		"":                                 "it takes tcp or udp",
		"tcp 192.168.1.20:1":               "it takes tcp or udp",
		"tcp 1.1.1.1:1 2.2.2.2:2 x":        "it takes tcp or udp",
		"tcp tcp 192.168.1.20:1":           "once",
		"sctp 192.168.1.20:1 1.1.1.1:1":    `"sctp" is not`,
		"3.3.3.3:3 1.1.1.1:1 2.2.2.2:2":    `"2.2.2.2:2" is not`,
		"tcp 192.168.1.20 1.1.1.1:1":       `"192.168.1.20" is not`,
		"tcp 2001:db8::1:443 1.1.1.1:1":    "is not ADDRESS:PORT",
		"tcp 192.168.1.20:0 1.1.1.1:1":     "is not ADDRESS:PORT",
		"tcp [fe80::1%eth0]:1 [fe80::2]:1": "is not ADDRESS:PORT",
		"tcp 192.168.1.20:1 [::1]:1":       "both ends are IPv4 or both IPv6",
	} {
		_, err := ParseTuple(strings.Fields(words))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want one line with %q", words, err, want)
		}
	}
}
