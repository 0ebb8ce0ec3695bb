// SPDX-License-Identifier: Apache-2.0

package config

// turboacc looks whether the package of that name writes fw4's offload options:
// it does at each start and stop, from options of its own.
func (f *findings) turboacc(d Dirs, c *Config) {
	p := f.foreign(d, "turboacc")
	if p == nil {
		return
	}
	for _, s := range p.Sections {
		for _, option := range []string{"sw_flow", "hw_flow"} {
			if s.Type == "turboacc" && isOn(s, option, false) {
				c.Firewall.TurboACC = Pos{p.File, s.Option(option).Values[0].Line}
			}
		}
	}
}
