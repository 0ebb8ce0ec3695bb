// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fastpath/src/config"
	"fastpath/src/state"
)

// mode is a port's receive mode, in UCI's words, and why. As ethtool states:
// fraglist is rx-gro and rx-gro-list on; gro is rx-gro on and rx-gro-list off; bulk
// and off are all four off, and bulk is that at early_ingress; keep touches nothing.
type mode struct{ name, reason string }

// receive is the wanted offloads of the ports that aren't left as they are.
func (s *survey) receive(h state.Hook) map[string]state.Offloads {
	want := map[string]state.Offloads{}
	for _, p := range s.ports {
		m, engine := s.mode(p, h), p.has().Kind != ""
		if m.name == config.ReceiveKeep && !engine {
			continue
		}
		o := s.offloads(p.link, m.name)
		if engine {
			o.GROHW, o.LRO, o.RxVLAN = false, false, false
		}
		want[p.link.Name] = reachable(o, p.link.Feature)
	}
	return want
}

// takenOff are the offloads that a port has by itself and its engine can't
// bear: what they join or take off an XDP program can't undo.
func (s *survey) takenOff(p *port) []string {
	if p.has().Kind == "" {
		return nil
	}
	var names []string
	own := s.own(p.link)
	for _, x := range []struct {
		name string
		on   bool
	}{{"rx-gro-hw", own.GROHW}, {"rx-lro", own.LRO}, {"rx-vlan-hw-parse", own.RxVLAN && !p.link.Feature.RxVLAN.Fixed}} {
		if x.on {
			names = append(names, x.name)
		}
	}
	return names
}

// mode is what p gets at hook h: what the user wrote where that can be had.
func (s *survey) mode(p *port, h state.Hook) mode {
	early := h == state.HookEarly && p.carries
	gro, written := s.c.GRO[p.link.Name]
	m := mode{p.receive, "option receive '" + p.receive + "'"}
	switch {
	case p.receive == config.ReceiveKeep:
		return m
	case p.receive == config.ReceiveAuto && early:
		m = mode{config.ReceiveBulk, "early_ingress wants NAPI's lists whole: GRO would merge them"}
	case p.receive == config.ReceiveAuto && written:
		return mode{config.ReceiveKeep, "held by option gro '" + digit(gro) + "' in /etc/config/network"}
	case p.receive == config.ReceiveAuto:
		return mode{config.ReceiveKeep, "nothing to gain by bulks without early_ingress"}
	case p.receive == config.ReceiveBulk && !early:
		return mode{config.ReceiveKeep, "option receive 'bulk' refused: bulks need early_ingress"}
	}
	want := s.offloads(p.link, m.name)
	if written && gro != want.GRO {
		return mode{config.ReceiveKeep, "held by option gro '" + digit(gro) + "' in /etc/config/network, against " + m.reason}
	}
	if got := reachable(want, p.link.Feature); got.GRO != want.GRO {
		return mode{config.ReceiveKeep, m.reason + " refused: rx-gro is fixed by the driver"}
	} else if got != want {
		m.reason += "; fixed by the driver: the result is " + got.String()
	}
	return m
}

// offloads is a mode as offloads. What a mode doesn't speak of is as the port
// had it before us.
func (s *survey) offloads(l *state.Link, mode string) state.Offloads {
	o := s.own(l)
	switch mode {
	case config.ReceiveGRO, config.ReceiveFraglist:
		o.GRO, o.GROList = true, mode == config.ReceiveFraglist
	case config.ReceiveBulk, config.ReceiveOff:
		o.GRO, o.GROList, o.GROHW, o.LRO = false, false, false, false
	}
	return o
}

// own is what a port has without us: what was saved before the first change, or what it has.
func (s *survey) own(l *state.Link) state.Offloads {
	if saved, ok := s.o.Saved[l.Name]; ok {
		return saved
	}
	return l.Feature.Offloads()
}

// reachable is want with each fixed feature as it is.
func reachable(want state.Offloads, f state.Features) state.Offloads {
	fix := func(want *bool, f state.Feature) {
		if f.Fixed {
			*want = f.On
		}
	}
	fix(&want.GRO, f.GRO)
	fix(&want.GROList, f.GROList)
	fix(&want.GROHW, f.GROHW)
	fix(&want.LRO, f.LRO)
	fix(&want.RxVLAN, f.RxVLAN)
	return want
}

func digit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}
