// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"slices"
	"strings"
)

// hasEngine says whether an engine of ours, not the kernel's flowtable, is to
// carry the port's flows.
func (p Port) hasEngine() bool { return p.Engine == EngineXDP || p.Engine == EngineAFXDP }

// readPort reads a port section. One that doesn't say clearly which port it is
// about is left out.
func (c *Config) readPort(s *section, network bool) {
	p := Port{
		Pos:      s.pos(""),
		Networks: c.portNetworks(s, network),
		Device:   portDevice(s),
		Engine:   s.choice("engine", EngineNone, EngineFlowtable, EngineXDP, EngineAFXDP, EngineNone),
		XDPMode:  s.choice("xdp_mode", XDPNative, XDPNative, XDPGeneric),
		ZeroCopy: s.flag("zero_copy", false, false),
		Receive: s.choice("receive", ReceiveKeep, ReceiveAuto, ReceiveBulk, ReceiveFraglist, ReceiveGRO,
			ReceiveOff, ReceiveKeep),
		Force: s.flag("force", false, false),
	}
	s.rest()
	switch {
	case s.has("network") && s.has("device"):
		s.problem(s.pos("device"), "a port has either network or device, not both")
		return
	case !s.has("network") && !s.has("device"):
		s.problem(p.Pos, "a port needs network or device")
		return
	case len(p.Networks) == 0 && p.Device == "":
		return // what it has is wrong and reported
	}
	if other := c.samePort(p); other != nil {
		s.problem(p.Pos, "this is the same port as in line %d", other.Pos.Line)
		return
	}
	c.checkEngine(s, &p)
	c.checkReceive(s, &p)
	c.Ports = append(c.Ports, p)
}

func (c *Config) portNetworks(s *section, network bool) (names []string) {
	for _, v := range s.texts("network") {
		switch {
		case !network:
			s.problem(s.at(v), "network '%s' is unknown, as there is no file network; name a device instead", v.Text)
		case c.ifaceOrParent(v.Text) == nil:
			s.problem(s.at(v), "network '%s' is unknown; the file network has %s", v.Text, c.ifaceNames())
		case slices.Contains(names, v.Text):
			s.problem(s.at(v), "network '%s' is named twice", v.Text)
		default:
			names = append(names, v.Text)
		}
	}
	return names
}

// ifaceOrParent finds the interface of that name or, because netifd makes
// interfaces like wan_6 while it runs, the one that such a name begins with.
func (c *Config) ifaceOrParent(name string) *Interface {
	for {
		if i := c.iface(name); i != nil {
			return i
		}
		end := strings.LastIndexByte(name, '_')
		if end < 0 || end == len(name)-1 {
			return nil
		}
		name = name[:end]
	}
}

func (c *Config) ifaceNames() string {
	var names []string
	for _, i := range c.Interfaces {
		names = append(names, i.Name)
	}
	return list(names)
}

func portDevice(s *section) string {
	name, ok := s.text("device")
	if !ok {
		return ""
	}
	if fault := deviceFault(name); fault != "" {
		s.problem(s.pos("device"), "device '%s' %s", name, fault)
		return ""
	}
	return name
}

// samePort finds an earlier section about the same device, however it is named.
func (c *Config) samePort(p Port) *Port {
	mine := c.devices(p)
	for i := range c.Ports {
		for _, device := range c.devices(c.Ports[i]) {
			if slices.Contains(mine, device) {
				return &c.Ports[i]
			}
		}
	}
	return nil
}

// devices are the names by which a port is known, as far as the files tell; a
// network that has no device there stands for itself.
func (c *Config) devices(p Port) (names []string) {
	if p.Device != "" {
		return []string{p.Device}
	}
	for _, n := range p.Networks {
		i := c.ifaceOrParent(n)
		names = append(names, cmp.Or(i.Device, "network "+i.Name))
		if l3 := i.L3Device(); l3 != "" {
			names = append(names, l3)
		}
	}
	return names
}

// checkEngine compares the engine with the options that are about it.
func (c *Config) checkEngine(s *section, p *Port) {
	if !p.hasEngine() {
		if p.XDPMode == XDPGeneric {
			s.problem(s.pos("xdp_mode"), "xdp_mode generic needs engine xdp or afxdp; this port has %s", p.Engine)
			p.XDPMode = XDPNative
		} else {
			s.idle("xdp_mode", p.Engine)
		}
		s.idle("force", p.Engine)
	}
	switch {
	case p.ZeroCopy && p.Engine != EngineAFXDP:
		s.problem(s.pos("zero_copy"), "zero_copy needs engine afxdp; this port has %s", p.Engine)
		p.ZeroCopy = false
	case p.Engine != EngineAFXDP:
		s.idle("zero_copy", p.Engine)
	case p.ZeroCopy && p.XDPMode == XDPGeneric:
		s.problem(s.pos("zero_copy"), "zero_copy needs xdp_mode native")
		p.ZeroCopy = false
	}
	if p.XDPMode == XDPGeneric && c.Main.Hook == HookEarly {
		s.problem(s.pos("xdp_mode"), "xdp_mode generic can't go with hook early_ingress, which takes packets before the program sees them")
		p.Engine, p.XDPMode, p.ZeroCopy = EngineFlowtable, XDPNative, false
	}
	if p.XDPMode == XDPGeneric && (p.Receive == ReceiveGRO || p.Receive == ReceiveFraglist) {
		s.notice(s.pos("receive"), "receive %s has no effect with xdp_mode generic, for which the kernel leaves GRO out", p.Receive)
	}
}

// idle says that an option is written in vain.
func (s *section) idle(option, engine string) {
	if s.has(option) {
		s.notice(s.pos(option), "%s has no effect with engine %s", option, engine)
	}
}

// checkReceive refuses bulking where nothing takes the bulks.
func (c *Config) checkReceive(s *section, p *Port) {
	if p.Receive != ReceiveBulk {
		return
	}
	switch {
	case c.Main.Hook == HookIngress || c.Main.Hook == HookOff:
		s.problem(s.pos("receive"), "receive bulk needs hook early_ingress or auto; it is %s", c.Main.Hook)
	case p.Engine == EngineNone:
		s.problem(s.pos("receive"), "receive bulk needs an engine that takes the bulks; this port has none")
	default:
		return
	}
	p.Receive = ReceiveKeep
}
