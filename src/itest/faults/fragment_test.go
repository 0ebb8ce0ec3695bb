// SPDX-License-Identifier: Apache-2.0

package faults

import "encoding/binary"

// fragments is what RFC 791 makes of an IPv4 frame for an MTU: as much as fits
// into each, in units of 8 bytes.
func fragments(frame []byte, mtu int) (all [][]byte) {
	const eth, ip, more = 14, 20, 0x2000
	data := frame[eth+ip:]
	size := (mtu - ip) / 8 * 8
	for at := 0; at < len(data); at += size {
		end := min(at+size, len(data))
		f := append(append([]byte(nil), frame[:eth+ip]...), data[at:end]...)
		field := uint16(at / 8)
		if end < len(data) {
			field |= more
		}
		binary.BigEndian.PutUint16(f[eth+2:], uint16(len(f)-eth))
		binary.BigEndian.PutUint16(f[eth+6:], field)
		binary.BigEndian.PutUint16(f[eth+10:], 0)
		binary.BigEndian.PutUint16(f[eth+10:], ^onesSum(f[eth:eth+ip]))
		all = append(all, f)
	}
	return all
}

// onesSum is the ones' complement sum of RFC 1071 over an even number of bytes.
func onesSum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}
