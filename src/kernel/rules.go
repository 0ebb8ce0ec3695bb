// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// include/uapi/linux/fib_rules.h.
const (
	fibRuleHdrLen = 12
	fibRuleInvert = 0x2 // FIB_RULE_INVERT
	fibToTable    = 1   // FR_ACT_TO_TBL
	fraSportMask  = 28
	fraDportMask  = 29
	fraNewest     = 25 // FRA_DSCP, and behind it flow labels
)

// strange names what a rule can look at that the kernel doesn't ask about, or
// asks otherwise, when it looks up the way back of a flow (nft_flow_route() in
// net/netfilter/nft_flow_offload.c: addresses, mark, TOS of one packet, and the
// device by which the way back has to leave).
var strange = map[uint16]string{
	unix.FRA_TUN_ID: "tun_id", unix.FRA_L3MDEV: "l3mdev", unix.FRA_UID_RANGE: "uidrange",
	unix.FRA_IP_PROTO: "ipproto", unix.FRA_SPORT_RANGE: "sport", unix.FRA_DPORT_RANGE: "dport",
	fraSportMask: "sport", fraDportMask: "dport",
}

// routingRule is a rule with what only the reading needs.
type routingRule struct {
	state.RoutingRule
	family byte
	table  uint32
	mark   uint32
	bare   bool // it looks at nothing
	looks  bool // it looks up a table, and does so whatever the table says
}

// rules reads those that are asked before every packet is led to table main.
func (w *ways) rules() error {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		header := make([]byte, fibRuleHdrLen)
		header[0] = family
		before, main := len(w.policy), false
		err := steady(func() error {
			w.policy, main = w.policy[:before], false
			return w.c.ask(request{call: "read the routing rules", typ: unix.RTM_GETRULE, dump: true, header: header}, func(body []byte) {
				r, ok := readRoutingRule(body)
				everything := r.bare && r.looks
				main = main || everything && r.table == unix.RT_TABLE_MAIN
				if ok && !main && !(everything && r.table == unix.RT_TABLE_LOCAL) {
					w.policy = append(w.policy, r)
				}
			})
		})
		if err != nil && !noFamily(err) {
			return err
		}
	}
	for _, r := range w.policy {
		w.r.Rules = append(w.r.Rules, r.RoutingRule)
	}
	return nil
}

// readRoutingRule reads struct fib_rule_hdr and its attributes.
func readRoutingRule(body []byte) (r routingRule, ok bool) {
	if len(body) < fibRuleHdrLen {
		return r, false
	}
	var words, odd []string
	say := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	r.family, r.table = body[0], uint32(body[4])
	r.bare, r.looks = true, body[7] == fibToTable
	if tos := body[3]; tos != 0 {
		odd = append(odd, fmt.Sprintf("tos %#x", tos))
	}
	for typ, b := range attrs(body[fibRuleHdrLen:]) {
		switch typ {
		case unix.FRA_TABLE:
			r.table = u32(b)
		case unix.FRA_PRIORITY:
			words = append([]string{fmt.Sprintf("%d:", u32(b))}, words...)
		case unix.FRA_SRC, unix.FRA_DST:
			a, _ := netip.AddrFromSlice(b)
			r.bare = false
			say("%s %v/%d", map[bool]string{true: "from", false: "to"}[typ == unix.FRA_SRC], a, body[typ])
		case unix.FRA_FWMARK:
			r.mark = u32(b)
		case unix.FRA_FWMASK:
			r.Mask = u32(b)
		case unix.FRA_IIFNAME:
			r.Iif = text(b)
		case unix.FRA_OIFNAME:
			r.Oif = text(b)
		case unix.FRA_SUPPRESS_PREFIXLEN, unix.FRA_SUPPRESS_IFGROUP:
			if int32(u32(b)) >= 0 {
				r.looks = false
				say("suppress %d", u32(b))
			}
		default:
			name := strange[typ]
			if name == "" && typ >= fraNewest {
				name = "dscp or flow label"
			}
			if name != "" && !slices.Contains(odd, name) {
				odd = append(odd, name)
			}
		}
	}
	r.describe(body, words, odd)
	return r, true
}

// describe fills in what follows from all attributes.
func (r *routingRule) describe(body []byte, words, odd []string) {
	invert := u32(body[8:])&fibRuleInvert != 0
	if invert {
		words = append(words, "not")
		if r.Iif+r.Oif != "" {
			odd = append(odd, "not iif")
		}
	}
	if r.Mask != 0 {
		words = append(words, fmt.Sprintf("fwmark %#x/%#x", r.mark, r.Mask))
	}
	for _, d := range [][2]string{{"iif", r.Iif}, {"oif", r.Oif}} {
		if d[1] != "" {
			words = append(words, d[0], d[1])
		}
	}
	r.bare = r.bare && !invert && r.Mask == 0 && r.Iif+r.Oif == "" && len(odd) == 0
	slices.Sort(odd) // the kernel's order may change
	r.Strange = strings.Join(odd, ", ")
	words = append(words, odd...)
	if r.looks || body[7] == fibToTable {
		words = append(words, fmt.Sprintf("lookup %d", r.table))
	} else {
		words = append(words, fmt.Sprintf("action %d", body[7]))
	}
	r.Text = strings.Join(words, " ")
}

// anyHost are senders that no router of ours has routes of its own to (RFC
// 5737, RFC 3849).
var anyHost = map[byte]netip.Addr{
	unix.AF_INET: netip.MustParseAddr("192.0.2.1"), unix.AF_INET6: netip.MustParseAddr("2001:db8::1"),
}

// goAstray asks the kernel, for each rule for a device with a default route, by
// which way answers that come in there reach the networks of the other devices.
// One that is down keeps its address, but nobody is behind it.
func (w *ways) goAstray() error {
	uplink := map[string]uint32{}
	for _, d := range w.r.Defaults {
		uplink[d.Device] = 0
	}
	for index, name := range w.names {
		if _, is := uplink[name]; is {
			uplink[name] = uint32(index)
		}
	}
	for _, r := range w.policy {
		iif := uplink[r.Iif]
		if iif == 0 {
			continue
		}
		for _, a := range w.r.Addresses {
			host, ok := neighbourOf(a.Prefix)
			if _, is := uplink[a.Device]; is || !w.up[a.Device] || !ok || host.Is4() != (r.family == unix.AF_INET) {
				continue
			}
			out, err := w.wayOf(r, iif, host)
			if err != nil {
				return err
			}
			if out != a.Device {
				w.r.Astray = append(w.r.Astray, fmt.Sprintf("%s would leave by %s (ip rule %s)", a.Prefix.Masked(), out, r.Text))
			}
		}
	}
	return nil
}

// neighbourOf is an address in the network of the router's own one.
func neighbourOf(own netip.Prefix) (host netip.Addr, ok bool) {
	host = own.Masked().Addr().Next()
	if host == own.Addr() {
		host = host.Next()
	}
	return host, own.Bits() < own.Addr().BitLen()-1 && !own.Addr().IsLoopback() && own.Contains(host)
}

// wayOf is the device by which a packet with r's mark that comes in by iif
// leaves for host, or why it doesn't.
func (w *ways) wayOf(r routingRule, iif uint32, host netip.Addr) (device string, err error) {
	header := make([]byte, rtmsgLen)
	header[0], header[1], header[2] = r.family, byte(host.BitLen()), byte(host.BitLen())
	err = w.c.ask(request{call: "look up a way back", typ: unix.RTM_GETROUTE, header: header, attrs: func(m *writer) {
		m.attr(unix.RTA_DST, host.AsSlice())
		m.attr(unix.RTA_SRC, anyHost[r.family].AsSlice())
		m.u32(unix.RTA_IIF, iif)
		m.u32(unix.RTA_MARK, r.mark)
	}}, func(body []byte) {
		for typ, b := range attrs(body[min(rtmsgLen, len(body)):]) {
			if typ == unix.RTA_OIF {
				device = w.name(u32(b))
			}
		}
	})
	var errno unix.Errno
	if errors.As(err, &errno) {
		return "nowhere: " + errno.Error(), nil
	}
	return device, err
}
