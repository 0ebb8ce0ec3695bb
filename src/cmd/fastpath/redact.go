// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"slices"
	"strings"
)

// A report is sent to strangers. What it holds is cut by kind:
//
//	MAC           the vendor's half stays: 02:1a:2b:xx:xx:xx
//	IPv4          private, shared, link-local, multicast and special ones stay,
//	              of others one half: 198.51.x.x
//	IPv6          of global, unique-local and link-local ones the first 32 bits: 2001:db8:x
//	secrets       see secretOption; they are struck wherever they occur

const leftOut = "(left out)"

// shortest is the length from which a secret is looked for in other text:
// "1" or "on" would strike half the report.
const shortest = 4

// preset are values that come with the system, say nothing about anybody, and
// stand in other places for something else.
var preset = []string{"OpenWrt", "ImmortalWrt", "root", "admin"}

// telling: a secret option's value is worth looking for elsewhere. A path names
// a file with the secret in it.
func telling(value string) bool {
	return len(value) >= shortest && value[0] != '/' && !slices.Contains(preset, value)
}

// redact cuts text; secrets are struck first.
func redact(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, leftOut)
	}
	var b strings.Builder
	for len(text) > 0 {
		n := 0
		for n < len(text) && inAddress(text[n]) {
			n++
		}
		if n == 0 {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		b.WriteString(cutWord(text[:n]))
		text = text[n:]
	}
	return b.String()
}

// inAddress: letters too, so that "face:b00k" isn't half an address.
func inAddress(c byte) bool {
	return c == ':' || c == '.' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// cutWord cuts a word of addresses' characters that is one, with or without a
// port or the end of a sentence behind it.
func cutWord(word string) string {
	bare := strings.TrimRight(word, ".:")
	rest := word[len(bare):]
	if short, ok := cutAddress(bare); ok {
		return short + rest
	}
	if isMAC(bare) {
		return bare[:8] + ":xx:xx:xx" + rest
	}
	if ip, port, ok := strings.Cut(bare, ":"); ok && !strings.Contains(port, ":") {
		left, a := cutAddress(ip)
		right, b := cutAddress(port)
		if a || b {
			return left + ":" + right + rest
		}
	}
	return word
}

// notPublic are IPv4 networks that tell nothing about anybody.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("224.0.0.0/3"),
}

// cutAddress is word unless it is an address to be cut.
func cutAddress(word string) (short string, ok bool) {
	ip, err := netip.ParseAddr(word)
	if err != nil {
		return word, false
	}
	ip = ip.Unmap()
	switch {
	case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast():
		return word, true
	case ip.Is6():
		b := ip.As16()
		short, _, _ := strings.Cut(netip.AddrFrom16([16]byte{b[0], b[1], b[2], b[3], 15: 1}).String(), "::")
		return short + ":x", true
	case ip.IsPrivate() || ip.IsLinkLocalUnicast():
		return word, true
	}
	for _, p := range notPublic {
		if p.Contains(ip) {
			return word, true
		}
	}
	half := strings.SplitN(ip.String(), ".", 3)
	return half[0] + "." + half[1] + ".x.x", true
}

func isMAC(word string) bool {
	if len(word) != len("00:00:00:00:00:00") {
		return false
	}
	for i := range len(word) {
		c := word[i] | 0x20
		if i%3 == 2 && word[i] != ':' || i%3 != 2 && !('0' <= word[i] && word[i] <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}

// secretWords in an option's name make its value a secret.
var secretWords = []string{
	"user", "pass", "key", "psk", "secret", "auth", "identity", "token", "pin", "apn", "cert", "email", "login", "ssid",
}

func secretOption(name string) bool {
	name = strings.ToLower(name)
	for _, w := range secretWords {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}
