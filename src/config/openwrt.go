// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"

	"fastpath/src/uci"
)

// network takes what we need from /etc/config/network. It is false when there
// is no such file, as outside OpenWrt.
func (f *findings) network(d Dirs, c *Config) (present bool) {
	p := f.foreign(d, "network")
	if p == nil {
		return false
	}
	for _, s := range p.Sections {
		switch s.Type {
		case "interface":
			c.Interfaces = append(c.Interfaces, Interface{
				Pos:    Pos{p.File, s.Line},
				Name:   s.Name,
				Proto:  lastText(s, "proto"),
				Device: mainDevice(s),
			})
		case "device":
			if name := lastText(s, "name"); name != "" {
				c.readGRO(name, lastText(s, "gro"))
			}
		}
	}
	c.resolveAliases()
	return true
}

// mainDevice is the device of an interface section, in the old form too, where
// ifname listed the devices and type bridge put them into br-NAME.
func mainDevice(s *uci.Section) string {
	if device := lastText(s, "device"); device != "" {
		return device
	}
	if lastText(s, "type") == "bridge" {
		return "br-" + s.Name
	}
	if o := s.Option("ifname"); o != nil {
		if w := words(o); len(w) > 0 {
			return w[0].Text
		}
	}
	return ""
}

// readGRO takes an explicit option gro in the words that netifd knows
// (uci/blob.c); it passes over others.
func (c *Config) readGRO(device, gro string) {
	if gro != "1" && gro != "true" && gro != "0" && gro != "false" {
		return
	}
	if c.GRO == nil {
		c.GRO = map[string]bool{}
	}
	c.GRO[device] = gro == "1" || gro == "true"
}

// resolveAliases puts the device of interface NAME where @NAME is written, and
// none where there is no end to that.
func (c *Config) resolveAliases() {
	device := make([]string, len(c.Interfaces))
	for i, at := range c.Interfaces {
		for range c.Interfaces { // an alias of an alias, at worst through all of them
			if name, alias := strings.CutPrefix(at.Device, "@"); alias {
				if below := c.iface(name); below != nil {
					at = Interface{Device: below.L3Device()}
				}
			}
		}
		if !strings.HasPrefix(at.Device, "@") {
			device[i] = at.Device
		}
	}
	for i := range c.Interfaces {
		c.Interfaces[i].Device = device[i]
	}
}

func (c *Config) iface(name string) *Interface {
	for i := range c.Interfaces {
		if c.Interfaces[i].Name == name {
			return &c.Interfaces[i]
		}
	}
	return nil
}

// firewall takes what we need from /etc/config/firewall.
func (f *findings) firewall(d Dirs, c *Config) {
	p := f.foreign(d, "firewall")
	if p == nil {
		return
	}
	c.Firewall.Present = true
	seen := false
	for _, s := range p.Sections {
		switch {
		case s.Type == "defaults" && !seen: // fw4 takes the first one only
			seen = true
			c.Firewall.offloading(s, p.File)
		case s.Type == "zone" && lastText(s, "name") != "" && isOn(s, "enabled", true):
			c.Zones = append(c.Zones, Zone{
				Pos:      Pos{p.File, s.Line},
				Name:     lastText(s, "name"),
				Networks: allTexts(s, "network"),
				Devices:  allTexts(s, "device"),
				Masq6:    isOn(s, "masq6", false),
			})
		}
	}
	c.qosRules(p)
}

func (w *Firewall) offloading(s *uci.Section, file string) {
	w.FlowOffloading = isOn(s, "flow_offloading", false)
	w.FlowOffloadingHW = w.FlowOffloading && isOn(s, "flow_offloading_hw", false)
	if o := s.Option("flow_offloading"); o != nil {
		w.FlowOffloadingPos = Pos{file, o.Values[0].Line}
	}
}

func lastText(s *uci.Section, option string) string {
	o := s.Option(option)
	if o == nil {
		return ""
	}
	return o.Values[len(o.Values)-1].Text
}

func allTexts(s *uci.Section, option string) []string {
	o := s.Option(option)
	if o == nil {
		return nil
	}
	var all []string
	for _, w := range words(o) {
		all = append(all, w.Text)
	}
	return all
}

func isOn(s *uci.Section, option string, preset bool) bool {
	if on, ok := boolean(lastText(s, option)); ok {
		return on
	}
	return preset
}
