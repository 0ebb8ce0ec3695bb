// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"net/netip"
)

// TupleHelp is the tuple's language for a person.
const TupleHelp = `TUPLE is tcp or udp and the two ends as ADDRESS:PORT, in any order; IPv6
addresses stand in brackets. With NAT, both as they are before it or both after.`

// Tuple names one connection, whichever way round.
type Tuple struct {
	Proto string
	Ends  [2]netip.AddrPort
}

// ParseTuple reads the words of TupleHelp.
func ParseTuple(words []string) (Tuple, error) {
	var t Tuple
	if len(words) != 3 {
		return Tuple{}, errors.New("tuple: it takes tcp or udp, and two ends ADDRESS:PORT")
	}
	n := 0
	for _, w := range words {
		if w == "tcp" || w == "udp" {
			if t.Proto != "" {
				return Tuple{}, errors.New("tuple: tcp or udp once")
			}
			t.Proto = w
			continue
		}
		end, err := netip.ParseAddrPort(w)
		if err != nil || end.Port() == 0 || end.Addr().Zone() != "" || n == len(t.Ends) {
			return Tuple{}, fmt.Errorf("tuple: %q is not ADDRESS:PORT (as 192.168.1.20:443 or [2001:db8::1]:443), tcp or udp", clip(w))
		}
		t.Ends[n] = netip.AddrPortFrom(end.Addr().Unmap(), end.Port())
		n++
	}
	if t.Ends[0].Addr().Is4() != t.Ends[1].Addr().Is4() {
		return Tuple{}, errors.New("tuple: both ends are IPv4 or both IPv6")
	}
	return t, nil
}
