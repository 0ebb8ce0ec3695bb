// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"sort"
	"strings"

	"fastpath/src/config"
	"fastpath/src/state"
)

// report is one line for each port, and for each l3 device that has none.
func (s *survey) report(h hook) []state.PortReport {
	rows := make([]state.PortReport, 0, len(s.ports))
	for _, p := range s.ports {
		rows = append(rows, s.portReport(p, h))
	}
	for _, st := range s.stacks {
		if len(st.ends) == 0 {
			rows = append(rows, s.stackReport(st))
		}
	}
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].Name < rows[j].Name })
	return rows
}

func (s *survey) portReport(p *port, h hook) state.PortReport {
	r := state.PortReport{
		Name:     p.link.Name,
		Networks: list(p.networks),
		Path:     list(p.paths),
		Hook:     state.HookOff, HookReason: p.why,
	}
	if p.carries {
		r.Hook, r.HookReason = h.hook, h.reason+s.kept(p, h)
	}
	m := s.mode(p, h.hook)
	r.Receive, r.ReceiveReason = m.name, m.reason
	if off := s.takenOff(p); off != nil {
		r.ReceiveReason += "; off while the engine runs: " + list(off)
	}
	r.Engine, r.EngineReason = s.engineReport(p, h)
	return r
}

// stackReport is the line of an l3 device below which there is nothing to list.
func (s *survey) stackReport(st *stack) state.PortReport {
	why := st.slow
	if why == "" && len(st.waits) > 0 {
		why = "waiting for device " + list(st.waits)
	} else if why == "" {
		why = "nothing below it yet"
	}
	r := state.PortReport{
		Name: st.name, Networks: list(st.networks), Path: st.name,
		Hook: state.HookOff, HookReason: why,
		Receive: config.ReceiveKeep, ReceiveReason: "no port to set",
		Engine: config.EngineNone, EngineReason: why,
	}
	if st.engine != "" {
		r.Engine, r.EngineReason = st.engine, "a tunnel that the engine of the port below it writes itself"
	}
	return r
}

// allNotices are the survey's after those of the configuration itself.
func (s *survey) allNotices() []string {
	var all []string
	for _, problem := range s.c.Notices {
		all = append(all, problem.String())
	}
	return append(all, s.notices...)
}

func list(words []string) string { return strings.Join(words, ", ") }
