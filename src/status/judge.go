// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strconv"
	"strings"

	"fastpath/src/state"
)

// answer of a match: some of what rules look at, conntrack doesn't tell.
type answer int

const (
	no answer = iota
	yes
	unknown
)

// judge follows the rules of chain forward as a packet of the connection's
// original direction meets them. It returns the first that decides, nil when
// none does, and those before it of which nobody can tell whether they would
// have matched.
func judge(t *state.Table, c state.Connection) (decides *state.Rule, unsure []state.Rule) {
	for i := range t.Rules {
		r := &t.Rules[i]
		if r.Verdict == state.Count {
			continue
		}
		switch matches(t, *r, c) {
		case yes:
			return r, unsure
		case unknown:
			unsure = append(unsure, *r)
		}
	}
	return nil, unsure
}

func matches(t *state.Table, r state.Rule, c state.Connection) answer {
	var is bool
	switch r.Key {
	case state.KeyAny:
		return yes
	case state.KeyL4Proto:
		is = slices.Contains(strings.FieldsFunc(r.Value, func(c rune) bool { return strings.ContainsRune("{, }", c) }), c.Proto)
	case state.KeyCtState:
		if r.Value != "established" {
			return unknown
		}
		is = c.Status&state.StatusSeenReply != 0
	case state.KeyCtMark:
		mask, err := strconv.ParseUint(r.Value, 0, 32)
		if err != nil {
			return unknown
		}
		is = c.Mark&uint32(mask) != 0
	case state.KeyHelper:
		is = c.Helper != ""
	case state.KeyIif:
		return deviceIs(c.InDevice, r)
	case state.KeyOif:
		return deviceIs(c.OutDevice, r)
	case state.KeyEngine:
		if c.InDevice == "" || c.OutDevice == "" {
			return unknown
		}
		is = slices.Contains(t.Engines[r.Value], c.InDevice) && slices.Contains(t.Engines[r.Value], c.OutDevice)
	default: // meta mark, meta secpath, rt ipsec: of the packet, not of the connection
		return unknown
	}
	return certain(is != r.Not)
}

// deviceIs compares a device; without a route it isn't known.
func deviceIs(device string, r state.Rule) answer {
	if device == "" {
		return unknown
	}
	return certain((device == r.Value) != r.Not)
}

func certain(is bool) answer {
	if is {
		return yes
	}
	return no
}
