// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"fastpath/src/state"
)

// The engines of the model: one program a port, and what it must be able to see.

const ourProgram = 99

func (r *router) startEngine(s state.StartEngine) error {
	l := r.link(s.Port)
	if l == nil {
		return errNoDevice
	}
	if l.XDP != 0 {
		return fmt.Errorf("%s: EBUSY, program %d", s.Port, l.XDP)
	}
	l.XDP, l.XDPGeneric = ourProgram, s.Want.Generic
	r.o.Engines[s.Port] = s.Want
	return r.engineSees(l)
}

func (r *router) stopEngine(s state.StopEngine) error {
	l := r.link(s.Port)
	if _, runs := r.o.Engines[s.Port]; l == nil || !runs {
		return errNoDevice
	}
	delete(r.o.Engines, s.Port)
	l.XDP, l.XDPGeneric = 0, false
	return nil
}

// engineSees: on a port with an engine nothing joins packets in hardware or
// takes their tags off.
func (r *router) engineSees(l *state.Link) error {
	if _, runs := r.o.Engines[l.Name]; !runs {
		return nil
	}
	if f := l.Feature; f.LRO.On || f.GROHW.On || f.RxVLAN.On && !f.RxVLAN.Fixed {
		return fmt.Errorf("%s: an engine gets what it can't see through: %v", l.Name, f.Offloads())
	}
	return nil
}

func (r *router) runs(kind string) bool {
	for _, e := range r.o.Engines {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

// engineBelow: every port below l has the engine, as far as links alone tell.
func (r *router) engineBelow(l *state.Link, kind string) bool {
	switch l.Kind {
	case "ppp", "ip6tnl":
		return r.runs(kind)
	case "vlan":
		return slices.ContainsFunc(r.o.Links, func(x state.Link) bool { return x.Index == l.Lower && r.engineBelow(&x, kind) })
	case "bridge":
		return !slices.ContainsFunc(r.o.Links, func(x state.Link) bool { return x.Master == l.Index && !r.engineBelow(&x, kind) })
	}
	return r.o.Engines[l.Name].Kind == kind
}

// engineEvent is somebody's program, or what trying an engine showed.
func (r *router) engineEvent(word string, args []string) bool {
	switch word {
	case "xdp", "noxdp":
		if _, ours := r.o.Engines[args[0]]; !ours {
			r.link(args[0]).XDP = map[string]uint32{"xdp": 7}[word]
		}
	case "refused":
		r.o.Refused[args[0]] = state.Refusal{Want: engineOf(args[1]), Reason: strings.Join(args[2:], " ")}
	case "retry":
		delete(r.o.Refused, args[0])
	default:
		return false
	}
	return true
}

// engineOf reads KIND[,generic][,zero-copy][,force].
func engineOf(words string) state.Engine {
	w := strings.Split(words, ",")
	return state.Engine{Kind: w[0], Generic: slices.Contains(w, "generic"), ZeroCopy: slices.Contains(w, "zero-copy"),
		Force: slices.Contains(w, "force"), Mark: 0x40000000}
}
