// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

	"fastpath/src/state"
)

// maxEncaps is NF_FLOW_TABLE_ENCAP_MAX (include/net/netfilter/nf_flow_table.h):
// the VLAN tags and the PPPoE header that one flowtable tuple holds.
const maxEncaps = 2

// end is a link at the lower end of a stacking.
type end struct {
	link *state.Link
	path []string // from the l3 device down to the link
	why  string   // why it can't be listed; "" if it can
}

// walk follows one l3 device down to its ends. A link is visited at most once
// for each depth of encapsulation, so that a loop ends and crossing paths don't multiply.
type walk struct {
	t      *topology
	limit  int // of encapsulations
	ends   []end
	path   []string
	waits  []string // devices that are named, but don't exist
	onPath map[int]bool
	seen   map[visit]string // the answer
}

type visit struct{ index, encaps int }

// down adds the ends below l, or says why there are none. Order of kinds and
// depth are free: VLAN on bridge, bridge over VLAN, PPPoE over VLAN over bridge port.
func (w *walk) down(l *state.Link, encaps int) (why string) {
	if w.onPath[l.Index] {
		return "the links form a loop through " + l.Name
	}
	if encaps > w.limit {
		return fmt.Sprintf("%s: more than %d encapsulations (VLAN tags and PPPoE), which is what a flowtable holds",
			strings.Join(append(w.path, l.Name), " / "), w.limit)
	}
	at := visit{l.Index, encaps}
	if why, ok := w.seen[at]; ok {
		return why
	}
	w.onPath[l.Index] = true
	w.path = append(w.path, l.Name)
	switch l.Kind {
	case "bridge":
		why = w.bridge(l, encaps)
	case "vlan":
		if lower := w.t.byIndex[l.Lower]; lower != nil {
			why = w.down(lower, encaps+1)
		} else {
			why = "the device below VLAN " + l.Name + " isn't here (another namespace?)"
		}
	case "ppp":
		why = w.session(l.Name, encaps)
	default:
		why = w.lowest(l, encaps)
	}
	w.path = w.path[:len(w.path)-1]
	delete(w.onPath, l.Index)
	w.seen[at] = why
	return why
}

// lowest is for what no tag or session stands on: a port, or a tunnel, which has its
// place in a flowtable beside the encapsulations.
func (w *walk) lowest(l *state.Link, encaps int) (why string) {
	if isTunnel(l) {
		if why = w.t.noTunnel(l); why == "" {
			why = w.down(w.t.byIndex[l.Tunnel.Lower], encaps)
		}
		return why
	}
	if why = unfit(l); why == "" {
		w.end(l, "")
	}
	return why
}

func (w *walk) end(l *state.Link, why string) {
	w.ends = append(w.ends, end{link: l, path: append([]string(nil), w.path...), why: why})
}

// bridge adds the ends below each port. A port that has none is left out alone:
// the other ports are as good without it. Only if none is good, that is the answer;
// a bridge without ports (yet) has no ends and no problem.
func (w *walk) bridge(l *state.Link, encaps int) (problem string) {
	fit := false
	for _, port := range w.t.ports[l.Index] {
		why := unfit(port)
		if why == "" {
			if why = w.down(port, encaps); why == "" {
				fit = true
				continue
			}
			problem = why
		}
		w.path = append(w.path, port.Name)
		w.end(port, why)
		w.path = w.path[:len(w.path)-1]
	}
	if fit {
		return ""
	}
	return problem
}

// session goes on below a PPP device by the Ethernet device of its session; a
// missing one is no problem, it is waited for.
func (w *walk) session(ppp string, encaps int) string {
	device, why := w.t.below(ppp)
	if why != "" {
		return why
	}
	if lower := w.t.byName[device]; lower != nil {
		return w.down(lower, encaps+1)
	}
	w.waits = append(w.waits, device)
	return ""
}
