// SPDX-License-Identifier: Apache-2.0

package config

import "fastpath/src/uci"

// shapers takes from the files of OpenWrt's QoS packages what they are told to
// shape. The kernel says what is in force; these files only give it a name.
func (f *findings) shapers(d Dirs, c *Config) {
	for _, service := range []struct {
		name, file string
		read       func(*uci.Section) Shaper
	}{
		{"sqm-scripts", "sqm", sqmQueue},
		{"qosify", "qosify", qosifyInterface},
		{"qosmate", "qosmate", qosmateSettings},
	} {
		p := f.foreign(d, service.file)
		if p == nil {
			continue
		}
		for _, s := range p.Sections {
			if s.Type == "global" && !isOn(s, "enabled", true) { // qosmate's switch stands first
				break
			}
			if shaper := service.read(s); shaper.Device != "" || shaper.Network != "" {
				shaper.Service = service.name
				c.Shapers = append(c.Shapers, shaper)
			}
		}
	}
}

func sqmQueue(s *uci.Section) (q Shaper) {
	if s.Type == "queue" && isOn(s, "enabled", false) {
		q.Device = lastText(s, "interface")
	}
	return q
}

func qosifyInterface(s *uci.Section) (q Shaper) {
	switch {
	case isOn(s, "disabled", false):
	case s.Type == "interface":
		q.Network = lastTextOr(s, "name", s.Name)
	case s.Type == "device":
		q.Device = lastTextOr(s, "name", s.Name)
	}
	return q
}

func qosmateSettings(s *uci.Section) (q Shaper) {
	if s.Type == "settings" {
		q.Device = lastText(s, "WAN")
	}
	return q
}
