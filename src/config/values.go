// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"strconv"
	"strings"
)

// deviceFault says why a device can't have that name (dev_valid_name,
// net/core/dev.c), "" if it can.
func deviceFault(name string) string {
	switch {
	case name == "" || name == "." || name == "..":
		return "is no device name"
	case len(name) > 15:
		return "is too long for a device; the kernel takes 15 bytes"
	case strings.ContainsAny(name, "/: \t\n\v\f\r"):
		return "is no device name; it has a slash, a colon or a blank in it"
	}
	return ""
}

// parsePrefix reads an address or a prefix. Bits behind the prefix are cleared.
func parsePrefix(v string) (p netip.Prefix, ok bool) {
	if a, err := netip.ParseAddr(v); err == nil {
		if a.Is4In6() || a.Zone() != "" {
			return p, false
		}
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(v)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// parseSource reads an address or a prefix that isn't everything: to drop that
// would lock the owner out.
func parseSource(v string) (p netip.Prefix, ok bool) {
	p, ok = parsePrefix(v)
	return p, ok && p.Bits() > 0
}

// parsePorts reads a port or a range FIRST-LAST, from 1 to 65535.
func parsePorts(v string) (r PortRange, ok bool) {
	first, last, isRange := strings.Cut(v, "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(last, 10, 16)
	if errA != nil || errB != nil || a < 1 || a > b {
		return PortRange{}, false
	}
	return PortRange{uint16(a), uint16(b)}, true
}

// parseDSCP reads a code point, 0 to 63, as a number or by its name: csN (RFC 2474),
// afNM (RFC 2597), ef (RFC 3246), va (RFC 5865), le (RFC 8622).
func parseDSCP(v string) (dscp uint8, ok bool) {
	if n, ok := parseNumber(v); ok {
		return uint8(n), n < 64
	}
	v = strings.ToLower(v)
	switch v {
	case "ef":
		return 46, true
	case "va":
		return 44, true
	case "le":
		return 1, true
	}
	if len(v) == 3 && v[:2] == "cs" && v[2] >= '0' && v[2] <= '7' {
		return (v[2] - '0') * 8, true
	}
	if len(v) == 4 && v[:2] == "af" && v[2] >= '1' && v[2] <= '4' && v[3] >= '1' && v[3] <= '3' {
		return (v[2]-'0')*8 + (v[3]-'0')*2, true
	}
	return 0, false
}

// parseMark reads VALUE or VALUE/MASK; without a mask all 32 bits count.
func parseMark(v string) (m Mark, ok bool) {
	value, mask, masked := strings.Cut(v, "/")
	m = Mark{Set: true, Mask: 1<<32 - 1}
	m.Value, ok = parseNumber(value)
	if ok && masked {
		m.Mask, ok = parseNumber(mask)
	}
	if !ok || m.Value&^m.Mask != 0 || m.Mask == 0 {
		return Mark{}, false
	}
	return m, true
}

// isSetName says whether nft takes the name for a set (identifiers in nft's
// scanner; 255 bytes is NFT_SET_MAXNAMELEN without the end).
func isSetName(v string) bool {
	if v == "" || len(v) > 255 || !isLetter(v[0]) {
		return false
	}
	for i := range len(v) {
		if c := v[i]; !isLetter(c) && (c < '0' || c > '9') && !strings.ContainsRune("_-./", rune(c)) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
