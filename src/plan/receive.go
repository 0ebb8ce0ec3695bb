// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"

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

// mode is what p gets at hook h: what the user wrote where that can be had,
// else what suits its traffic.
func (s *survey) mode(p *port, h state.Hook) mode {
	early := h == state.HookEarly && p.carries
	gro, written := s.c.GRO[p.link.Name]
	m := mode{p.receive, "option receive '" + p.receive + "'"}
	switch {
	case p.receive == config.ReceiveKeep:
		return m
	case p.receive == config.ReceiveAuto && written && !early:
		return mode{config.ReceiveKeep, "held by option gro '" + digit(gro) + "' in /etc/config/network"}
	case p.receive == config.ReceiveAuto:
		if m = s.auto(p, h); m.name == config.ReceiveKeep {
			return m
		}
	case p.receive == config.ReceiveFraglist && p.denied != "":
		m.reason += ", although " + p.denied
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

// auto is what suits p's traffic at hook h. On a kernel without early_ingress
// GRO is only ever reduced: fraglist GRO has crashed too many of them to be
// switched on where whoever built the kernel left it off. One that has
// early_ingress is newer than every mended entry of the deny-list, and before
// and after are compared there (src/agent).
func (s *survey) auto(p *port, h state.Hook) mode {
	own := s.own(p.link)
	switch wants := s.wantsGRO(p); {
	case h == state.HookEarly && p.carries:
		return mode{config.ReceiveBulk, s.whyBulk(p)}
	case h == state.HookOff || !p.carries:
		return mode{config.ReceiveKeep, "nothing to gain by bulks without early_ingress"}
	case p.denied != "" && own.GRO && own.GROList:
		return mode{config.ReceiveGRO, p.denied}
	case wants != "" && s.o.Mix[p.link.Name].Kind == state.MixMany: // it is steered
		return mode{config.ReceiveKeep, wants + "; " + mixWords(s.o.Mix[p.link.Name])}
	case wants != "" && s.o.Hooks.Early.OK && p.denied != "":
		return mode{config.ReceiveGRO, wants + "; no fraglist: " + p.denied}
	case wants != "" && s.o.Hooks.Early.OK:
		return mode{config.ReceiveFraglist, wants}
	case wants != "" && !own.GROList && p.denied == "":
		return mode{config.ReceiveKeep, wants + "; option receive 'fraglist' may help, but isn't chosen on a kernel without early_ingress"}
	}
	return mode{config.ReceiveKeep, cmp.Or(s.o.Mix[p.link.Name].Compared, "nothing to gain by bulks without early_ingress")}
}

// whyBulk: without GRO early_ingress gets NAPI's lists whole.
func (s *survey) whyBulk(p *port) string {
	const why = "early_ingress wants NAPI's lists whole: GRO would merge them"
	m := s.o.Mix[p.link.Name]
	words := mixWords(m)
	switch {
	case words == "":
		return why
	case m.Kind != state.MixFew && m.Kind != state.MixLocal:
	case !s.own(p.link).GRO:
		words += ", but GRO is off by itself"
	case s.c.Main.Hook == config.HookEarly:
		words += ", but option hook 'early_ingress' holds"
	default:
		words += ", but no fraglist: " + p.denied
	}
	return why + "; " + words
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
