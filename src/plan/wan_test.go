// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fastpath/src/state"
)

// routingEvent is one of:
//
//	route DEVICE [via=ADDR] [from=PREFIX] [table=N] [metric=N] | noroute DEVICE   a default route; DEVICE has none any more
//	address DEVICE PREFIX | noaddress DEVICE PREFIX
//	rule WORD…                 of policy routing, as ip rule shows it; norule: none any more
//	moved WORD… | lost ADDR | astray WORD… | netifd late | netifd answers
func (r *router) routingEvent(word string, args []string) bool {
	o := &r.o.Routing
	rest := strings.Join(args, " ")
	switch word {
	case "route":
		o.Defaults = append(slices.Clone(o.Defaults), route(args))
	case "noroute":
		o.Defaults = slices.DeleteFunc(slices.Clone(o.Defaults), func(d state.Route) bool { return d.Device == args[0] })
	case "address":
		o.Addresses = append(slices.Clone(o.Addresses), state.Address{Device: args[0], Prefix: netip.MustParsePrefix(args[1])})
	case "noaddress":
		o.Addresses = slices.DeleteFunc(slices.Clone(o.Addresses), func(a state.Address) bool { return a.String() == args[1]+" dev "+args[0] })
	case "rule":
		o.Rules = append(slices.Clone(o.Rules), rule(args))
	case "norule":
		o.Rules = nil
	case "moved":
		o.Moved = append(slices.Clone(o.Moved), rest)
	case "netifd":
		r.o.NetifdLate = args[0] == "late"
	case "lost":
		o.Lost = append(slices.Clone(o.Lost), netip.MustParseAddr(args[0]))
	case "astray":
		o.Astray = append(slices.Clone(o.Astray), rest)
	default:
		return false
	}
	return true
}

func route(args []string) state.Route {
	d := state.Route{Device: args[0], From: netip.MustParsePrefix("0.0.0.0/0"), Table: 254}
	for _, word := range args[1:] {
		key, value, _ := strings.Cut(word, "=")
		n, _ := strconv.ParseUint(value, 10, 32)
		switch key {
		case "via":
			d.Gateway = netip.MustParseAddr(value)
		case "from":
			d.From = netip.MustParsePrefix(value)
		case "table":
			d.Table = uint32(n)
		case "metric":
			d.Metric = uint32(n)
		default:
			panic(fmt.Sprintf("route: unknown word %q", word))
		}
	}
	return d
}

// rule understands what the kernel's reader tells the plan of.
func rule(args []string) state.RoutingRule {
	rule := state.RoutingRule{Text: strings.Join(args, " ")}
	for i, word := range args[:len(args)-1] {
		switch next := args[i+1]; word {
		case "fwmark":
			_, mask, _ := strings.Cut(next, "/")
			n, err := strconv.ParseUint(mask, 0, 32)
			if err != nil {
				panic(err)
			}
			rule.Mask = uint32(n)
		case "iif":
			rule.Iif = next
		case "oif":
			rule.Oif = next
		case "tos", "sport", "dport", "ipproto", "l3mdev":
			rule.Strange = word
		}
	}
	return rule
}

// forget does a state.ForgetConnections.
func (r *router) forget(step state.Step) error {
	if _, is := step.(state.ForgetConnections); !is {
		return fmt.Errorf("unknown step %T", step)
	}
	r.o.Routing.Lost = nil
	return nil
}

// wanEvent is a change of the ways out, or of what flows depend on besides.
func (w *stroll) wanEvent() string {
	return pick(w, "route eth1 via=198.51.100.1 metric=10", "route eth2 via=203.0.113.1 metric=20", "noroute eth1", "noroute eth2",
		"rule 2001: fwmark 0x100/0x3f00 lookup 1", "rule 100: tos 0x10 lookup 7", "norule", "norule", "norule",
		"address eth1 198.51.100.2/24", "noaddress eth1 198.51.100.2/24", "lost 198.51.100.2", "lost 198.51.100.3",
		"moved 192.168.1.9 has another MAC", "moved 192.168.1.9 has another MAC", "netifd late", "netifd answers")
}
