// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"strconv"
	"strings"
)

// ParseSessions reads /proc/net/pppoe (drivers/net/ppp/pppoe.c, pppoe_seq_show):
// after a header, the id in hex and in network order as the CPU reads it, the
// peer's MAC, the device.
func ParseSessions(pppoe io.Reader) []Session {
	var found []Session
	for s := bufio.NewScanner(pppoe); s.Scan(); {
		field := strings.FieldsFunc(s.Text(), func(c rune) bool { return c == ' ' || c == '\t' }) // a name may have Unicode's
		if len(field) != 3 {
			continue
		}
		id, err := strconv.ParseUint(field[0], 16, 32)
		mac, err2 := hex.DecodeString(strings.ReplaceAll(field[1], ":", ""))
		if err != nil || err2 != nil || len(mac) != 6 {
			continue
		}
		order := binary.NativeEndian.AppendUint16(nil, uint16(id))
		found = append(found, Session{ID: binary.BigEndian.Uint16(order), Peer: [6]byte(mac), Device: field[2]})
	}
	return found
}
