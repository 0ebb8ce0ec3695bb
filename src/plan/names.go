// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"

	"fastpath/src/config"
	"fastpath/src/state"
)

// names turns logical interfaces into devices.
type names struct {
	written map[string]config.Interface // UCI's
	live    map[string]state.Interface  // netifd's
}

func newNames(c config.Config, o state.Observed) names {
	n := names{map[string]config.Interface{}, map[string]state.Interface{}}
	for _, i := range c.Interfaces {
		n.written[i.Name] = i
	}
	for _, i := range o.Interfaces {
		n.live[i.Name] = i
	}
	return n
}

// l3 is the device that carries a network's addresses: netifd's word while it
// is up, else netifd's naming applied to what UCI says, or to netifd's main
// device of a dynamic interface. "" if that isn't known, as for an alias (@wan)
// of an interface that is down.
func (n names) l3(network string) string {
	live := n.live[network]
	if live.L3Device != "" {
		return live.L3Device
	}
	i, ok := n.written[network]
	if !ok {
		i = config.Interface{Name: network, Proto: live.Proto, Device: live.Device}
	}
	if device := i.L3Device(); !strings.HasPrefix(device, "@") {
		return device
	}
	return ""
}

// wildcard is what the names begin with that a zone's list device means; fw4
// takes a trailing + or * so.
func wildcard(pattern string) (prefix string, many bool) {
	prefix = strings.TrimRight(pattern, "+*")
	return prefix, prefix != pattern
}
