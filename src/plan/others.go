// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"fastpath/src/config"
	"fastpath/src/state"
)

// accelerator is a product of others that forwards routed packets in the
// kernel's place.
type accelerator struct {
	name    string
	modules []string
	end     string // what ends it
}

var others = []accelerator{
	{"SFE", []string{"shortcut_fe", "shortcut_fe_ipv6", "shortcut_fe_cm", "shortcut_fe_drv", "fast_classifier"},
		"option sfe_flow '0' in /etc/config/turboacc, or rmmod"},
	{"MediaTek's HNAT", []string{"mtkhnat", "mtk_hnat", "hw_nat"}, "removing its kmod and a reboot"},
	{"natflow", []string{"natflow"}, "removing its kmod and a reboot"},
	{"Qualcomm's ECM", []string{"qca_nss_ecm", "ecm", "qca_nss_sfe"}, "/etc/init.d/qca-nss-ecm stop"},
	{"iptables' FLOWOFFLOAD", []string{"xt_FLOWOFFLOAD"}, "firewall option flow_offloading '0'"},
}

// loadedOthers is what of others is loaded and how it is ended; "": nothing. A
// name that isn't in the list is said as it is.
func loadedOthers(o state.Observed) string {
	left := slices.DeleteFunc(slices.Clone(o.Accelerators), func(name string) bool { return name == state.Bridger })
	var found []string
	for _, a := range others {
		var modules []string
		left = slices.DeleteFunc(left, func(name string) bool {
			ours := slices.Contains(a.modules, name)
			if ours {
				modules = append(modules, name)
			}
			return ours
		})
		if modules != nil {
			found = append(found, fmt.Sprintf("%s (%s; what ends it: %s)", a.name, list(modules), a.end))
		}
	}
	return list(append(found, left...))
}

// hardware is why hardware offload is taken to be on; "": it isn't. fw4 falls
// back to a software flowtable where the hardware refuses.
func hardware(c config.Config, o state.Observed) string {
	for _, f := range o.Flowtables {
		if f.Hardware {
			return fmt.Sprintf("flowtable %s of table %s has flags offload", f.Name, f.Table)
		}
	}
	switch {
	case o.FW4.Hardware:
		return "firewall option flow_offloading_hw '1'"
	case c.Firewall.FlowOffloadingHW && o.FW4.Offload:
		return "firewall option flow_offloading_hw '1', but fw4's flowtable is a software one: " +
			"the hardware can't; set it to '0' and reload the firewall"
	case c.Firewall.FlowOffloadingHW:
		return "firewall option flow_offloading_hw '1'"
	}
	return ""
}

// noteOthers says what of others works beside us, each with what to do.
func (s *survey) noteOthers() {
	s.offerFW4()
	for _, f := range s.o.Flowtables {
		s.notice("flowtable ", f.Name, " of table ", f.Table, " (", list(f.Devices), ") isn't ours: it carries the connections ",
			"that its own rules add; to accelerate them with fastpath, remove it")
	}
	if slices.Contains(s.o.Accelerators, state.Bridger) {
		s.notice("bridger runs: it forwards bridged packets, fastpath routed ones; nothing to do")
	}
}

// offerFW4 offers to switch fw4's own flowtable off.
func (s *survey) offerFW4() {
	w := s.c.Firewall
	switch {
	case w.FlowOffloading && w.TurboACC != (config.Pos{}):
		s.notice(config.Problem{Pos: w.FlowOffloadingPos, Reason: "fw4's own flow_offloading is on, and turboacc writes it (" +
			config.Problem{Pos: w.TurboACC, Reason: "sw_flow or hw_flow '1'"}.String() +
			"); to accelerate with fastpath instead, set both to '0' and reload the firewall"}.String())
	case w.FlowOffloading:
		s.notice(config.Problem{Pos: w.FlowOffloadingPos, Reason: "fw4's own flow_offloading is on; " +
			"to accelerate with fastpath instead, set it to '0' and reload the firewall"}.String())
	case s.o.FW4.Offload:
		s.notice("fw4's own flow_offloading is on in the kernel, but not in /etc/config/firewall: reload the firewall")
	}
}

// noteXDP says which ports have somebody else's XDP program.
func (s *survey) noteXDP() {
	for _, p := range s.ports {
		if s.foreignXDP(p.link) {
			s.notice("XDP program ", fmt.Sprint(p.link.XDP), " on ", p.link.Name, " isn't ours and sees packets first: ",
				"no engine there, and what it forwards or drops never comes to fastpath; to use an engine, detach it")
		}
	}
}
