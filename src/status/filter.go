// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fastpath/src/state"
)

// FilterHelp is the filter's language for a person.
const FilterHelp = `FILTER is any of these words; a flow is meant when all of them fit:
  tcp | udp          the protocol
  ipv4 | ipv6        the family
  ADDRESS[/LENGTH]   an address or network, at any end, before or after NAT
  port NUMBER        a port, at any end, before or after NAT
  engine NAME        xdp, afxdp or flowtable`

// Filter chooses flows. Its zero value chooses all.
type Filter struct {
	proto    string
	family   string
	engine   string
	prefixes []netip.Prefix
	ports    []uint16
}

// ParseFilter reads the words of FilterHelp.
func ParseFilter(words []string) (Filter, error) {
	var f Filter
	for i := 0; i < len(words); i++ {
		switch w := words[i]; w {
		case "tcp", "udp":
			if f.proto != "" && f.proto != w {
				return Filter{}, errors.New("filter: a flow is either tcp or udp")
			}
			f.proto = w
		case "ipv4", "ipv6":
			if f.family != "" && f.family != w {
				return Filter{}, errors.New("filter: a flow is either ipv4 or ipv6")
			}
			f.family = w
		case "port":
			i++
			if i == len(words) {
				return Filter{}, errors.New("filter: port needs a number")
			}
			n, err := strconv.ParseUint(words[i], 10, 16)
			if err != nil || n == 0 {
				return Filter{}, fmt.Errorf("filter: port %q is not a number from 1 to 65535", clip(words[i]))
			}
			f.ports = append(f.ports, uint16(n))
		case "engine":
			i++
			if i == len(words) || !slices.Contains(engines, words[i]) {
				return Filter{}, errors.New("filter: engine needs one of " + strings.Join(engines, ", "))
			}
			if f.engine != "" && f.engine != words[i] {
				return Filter{}, errors.New("filter: a flow has one engine")
			}
			f.engine = words[i]
		default:
			p, err := parsePrefix(w)
			if err != nil {
				return Filter{}, fmt.Errorf("filter: %q is not tcp, udp, ipv4, ipv6, port, engine, nor an address", clip(w))
			}
			f.prefixes = append(f.prefixes, p)
		}
	}
	return f, nil
}

var engines = []string{state.EngineXDP, state.EngineAFXDP, state.EngineFlowtable}

func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// Match reports whether every word of the filter fits the flow.
func (f Filter) Match(flow state.Flow) bool {
	if f.proto != "" && f.proto != flow.Proto || f.family != "" && f.family != flow.Family ||
		f.engine != "" && f.engine != flow.Engine {
		return false
	}
	for _, p := range f.prefixes {
		if !anyAddr(flow, p) {
			return false
		}
	}
	for _, n := range f.ports {
		if n != flow.Orig.SrcPort && n != flow.Orig.DstPort && n != flow.Reply.SrcPort && n != flow.Reply.DstPort {
			return false
		}
	}
	return true
}

func anyAddr(flow state.Flow, p netip.Prefix) bool {
	for _, s := range []string{flow.Orig.Src, flow.Orig.Dst, flow.Reply.Src, flow.Reply.Dst} {
		if a, err := netip.ParseAddr(s); err == nil && p.Contains(a) {
			return true
		}
	}
	return false
}
