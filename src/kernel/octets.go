// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

const (
	procNetstat = "/proc/thread-self/net/netstat"
	procSNMP6   = "/proc/thread-self/net/snmp6"
)

// stackBytes are the bytes that IP has received from all devices. What a
// flowtable or an engine forwards never comes there.
func stackBytes() uint64 {
	return readProc(procNetstat, readInOctets) + readProc(procSNMP6, readInOctets6)
}

// readInOctets reads /proc/net/netstat (net/ipv4/proc.c, netstat_seq_show): a
// line "IpExt: NAME …", then one "IpExt: NUMBER …".
func readInOctets(r io.Reader) uint64 {
	var names []string
	for s := bufio.NewScanner(r); s.Scan(); {
		field := strings.Fields(s.Text())
		switch {
		case len(field) == 0 || field[0] != "IpExt:":
		case names == nil:
			names = field
		default:
			for i, name := range names {
				if name == "InOctets" && i < len(field) {
					n, _ := strconv.ParseUint(field[i], 10, 64)
					return n
				}
			}
		}
	}
	return 0
}

// readInOctets6 reads /proc/net/snmp6: lines "NAME NUMBER".
func readInOctets6(r io.Reader) uint64 {
	for s := bufio.NewScanner(r); s.Scan(); {
		if field := strings.Fields(s.Text()); len(field) == 2 && field[0] == "Ip6InOctets" {
			n, _ := strconv.ParseUint(field[1], 10, 64)
			return n
		}
	}
	return 0
}
