// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"fastpath/src/state"
)

// tunnelEvent: properties of a link change. See event.
func (r *router) tunnelEvent(args []string) error {
	for _, word := range args[1:] {
		if err := r.property(r.link(args[0]), word); err != nil {
			return err
		}
	}
	return nil
}

// tunnelProperty is a word about a tunnel, or an MTU. See event.
func (r *router) tunnelProperty(l *state.Link, key, value string) (err error) {
	switch key {
	case "via":
		l.Tunnel.Lower = 0
		if lower := r.link(value); lower != nil {
			l.Tunnel.Lower = lower.Index
		}
	case "mode":
		l.Tunnel.Mode = value
	case "odd":
		l.Tunnel.Odd = strings.ReplaceAll(value, "_", " ")
	case "mtu":
		l.MTU, err = strconv.Atoi(value)
	}
	return err
}

// tunnelsHold: what a flowtable would lose, or carry one way only, is kept from it:
// any tunnel before 7.2, and any while PPPoE may be below it.
func tunnelsHold(t *testing.T, r *router) {
	t.Helper()
	if r.o.Table == nil || !adds(r.o.Table.Rules) {
		return
	}
	ppp := slices.ContainsFunc(r.o.Links, func(l state.Link) bool { return l.Kind == "ppp" })
	for i := range r.o.Links {
		l := &r.o.Links[i]
		if !isTunnel(l) || carriesTunnels(l, r.o.Release) && !ppp {
			continue
		}
		for _, key := range []state.Key{state.KeyIif, state.KeyOif} {
			rule := state.Rule{Matches: []state.Match{state.Is(key, l.Name)}, Verdict: state.Return}
			if !identities(r.o.Table.Rules)[rule.Identity()] {
				t.Fatalf("no rule %s", rule)
			}
		}
	}
}
