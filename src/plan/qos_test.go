// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"fastpath/src/state"
)

// tcEvent is what tc has on a link from now on; see event.
func (r *router) tcEvent(args []string) error {
	l := r.link(args[0])
	if l == nil {
		return errNoDevice
	}
	l.Qdisc = state.Qdisc{Root: "noqueue", Direct: true}
	for _, word := range args[1:] {
		switch target, redirect := strings.CutPrefix(word, "ifb="); {
		case redirect && r.link(target) == nil:
			return errNoDevice
		case redirect:
			l.Qdisc.Redirect = r.link(target).Index
		case word == "police":
			l.Qdisc.Police = true
		case word == "bpf":
			l.Qdisc.Classify = true
		default:
			kind, shapes := strings.CutSuffix(word, "!")
			l.Qdisc.Root, l.Qdisc.Direct = kind, kind == "fq_codel"
			if shapes {
				l.Qdisc.Shaper = kind
			}
		}
	}
	return nil
}

// setsEvent is what the rules of somebody's table set from now on; see event.
func (r *router) setsEvent(args []string) {
	has := func(word string) bool { return slices.Contains(args[2:], word) }
	is := state.Setter{Table: args[0] + " " + args[1], DSCP: has("dscp"), Mark: has("mark"), Priority: has("priority")}
	r.o.Setters = slices.DeleteFunc(slices.Clone(r.o.Setters), func(s state.Setter) bool { return s.Table == is.Table })
	if len(args) > 2 {
		r.o.Setters = append(r.o.Setters, is)
	}
}

// limitsIn: something at l's tc ingress limits or classifies what it receives.
func (r *router) limitsIn(l *state.Link) bool {
	for i := range r.o.Links {
		if ifb := &r.o.Links[i]; ifb.Index == l.Qdisc.Redirect && ifb.Qdisc.Shaper != "" {
			return true
		}
	}
	return l.Qdisc.Police || l.Qdisc.Classify && !slices.Contains(r.o.Accelerators, state.Bridger)
}

// limitsHold holds whenever a plan has been carried out: no way that is in use
// passes a port's own limits by.
func limitsHold(t *testing.T, r *router) {
	t.Helper()
	for port, e := range r.o.Engines {
		if l := r.link(port); l != nil && !e.Force && (l.Qdisc.Shaper != "" || r.limitsIn(l)) {
			t.Fatalf("engine %v on %s with %+v", e, port, l.Qdisc)
		}
	}
	if r.o.Table == nil || r.o.Table.Flowtable.Number == state.NumberIngress {
		return
	}
	for _, port := range r.o.Table.Flowtable.Devices {
		if l := r.link(port); l != nil && r.limitsIn(l) {
			t.Fatalf("%s is in an early flowtable with %+v", port, l.Qdisc)
		}
	}
}

// TestMatrix: the later a way takes a packet and the earlier it lets it go, the
// more of tc it meets, and newer kernels let go no earlier. The slow path meets
// all, an engine nothing.
func TestMatrix(t *testing.T) {
	for at := range places {
		for _, release := range []string{"6.18.3", "6.19-rc1"} {
			for via := bySlowPath; via < ways; via++ {
				got := treats(release, at, via)
				switch {
				case via == bySlowPath && got != honoured, via == byEngine && got != bypassed:
					t.Errorf("%s place %d: %v treats it as %d", release, at, via, got)
				case via > bySlowPath && got > treats(release, at, via-1):
					t.Errorf("%s place %d: %v keeps more than %v", release, at, via, via-1)
				case got > treats("6.18.3", at, via):
					t.Errorf("place %d: %v keeps more on %s", at, via, release)
				}
			}
		}
	}
}

func TestInline(t *testing.T) {
	for release, want := range map[string]bool{
		"5.15.167": false, "6.1.0-44-amd64": false, "6.12": false, "6.18.44": false, "6.19.0-rc1": true, "6.20": true,
		"7.3.4-earlyingress": true, "10.0": true, "": true, "odd": true, "6": true,
	} {
		if got := inline(release); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}

// tc puts something in the way of a random link's packets.
func (w *stroll) tc(port, bridge string) string {
	at := pick(w, port, port, cmp.Or(bridge, port), cmp.Or(w.linkOf("vlan", "ppp"), port))
	ifb := w.linkOf("ifb")
	if ifb == "" {
		return "ifb " + w.fresh()
	}
	return "tc " + pick(w, at+" cake!", at+" fq_codel", at, at+" ifb="+ifb, at+" htb! ifb="+ifb, at+" police", at+" bpf", ifb+" cake!", ifb)
}
