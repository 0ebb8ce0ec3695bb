// SPDX-License-Identifier: Apache-2.0

package icount

import (
	"encoding/binary"
	"fmt"
	"net"
)

// frame is UDP over IPv4 with size bytes. It has a UDP checksum: GRO joins no
// packets without.
func frame(dstMAC, srcMAC, src, dst string, sport, dport uint16) ([]byte, error) {
	f := make([]byte, size)
	to, err := net.ParseMAC(dstMAC)
	if err != nil {
		return nil, err
	}
	from, err := net.ParseMAC(srcMAC)
	if err != nil {
		return nil, err
	}
	copy(f, to)
	copy(f[6:], from)
	binary.BigEndian.PutUint16(f[12:], 0x0800)
	ip := f[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:16], net.ParseIP(src).To4())
	copy(ip[16:20], net.ParseIP(dst).To4())
	binary.BigEndian.PutUint16(ip[10:], ^sum(ip[:20]))
	udp := ip[20:]
	binary.BigEndian.PutUint16(udp, sport)
	binary.BigEndian.PutUint16(udp[2:], dport)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	pseudo := append(append([]byte{}, ip[12:20]...), 0, 17, udp[4], udp[5]) // RFC 768
	check := ^sum(append(pseudo, udp...))
	if check == 0 { // which would mean none
		check = 0xffff
	}
	binary.BigEndian.PutUint16(udp[6:], check)
	if len(f) != size {
		return nil, fmt.Errorf("a frame of %d bytes", len(f))
	}
	return f, nil
}

// sum is the Internet checksum (RFC 1071), not inverted, of an even number of bytes.
func sum(b []byte) uint16 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	s = s>>16 + s&0xffff
	return uint16(s>>16 + s)
}
