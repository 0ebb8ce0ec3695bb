// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"strings"

	"fastpath/src/state"
)

// observed prints one look at the kernel.
func (r *report) observed(o state.Observed) {
	r.ability("flowtable at ingress", o.Hooks.Ingress)
	r.ability("flowtable at early_ingress", o.Hooks.Early)
	r.ability("rules match IPsec", o.IPsec)
	r.ability("rules look up routes", o.FIB)
	r.ability("rules hand connections to engines", o.Marks)
	r.line("fw4: %+v", o.FW4)
	r.line("others: accelerators %v, translators %v, flowtables %+v, tables that mark %+v", o.Accelerators, o.Translators, o.Flowtables, o.Setters)
	r.line("sysctls: %+v, before us: %v", o.Sysctls, o.SavedSysctls)
	r.line("routing: %+v", o.Routing)
	for _, i := range o.Interfaces {
		r.line("interface %s: %s, device %q, l3 device %q, up %v", i.Name, i.Proto, i.Device, i.L3Device, i.Up)
	}
	for _, s := range o.Sessions {
		r.line("PPPoE session %d on %s with %s", s.ID, s.Device, net.HardwareAddr(s.Peer[:]))
	}
	for i := range o.Links {
		r.link(o, &o.Links[i])
	}
}

func (r *report) ability(what string, a state.Ability) {
	switch {
	case a.OK:
		r.line("%s: yes", what)
	case a.Reason == "":
		r.line("%s: not known", what)
	default:
		r.line("%s: no: %s", what, a.Reason)
	}
}

// link prints a link and below it what it had before us.
func (r *report) link(o state.Observed, l *state.Link) {
	kind := l.Kind
	if kind == "" {
		kind = l.DevType
	}
	fmt.Fprintf(r, "link %d %s: %q", l.Index, l.Name, kind)
	if l.Lower != 0 {
		fmt.Fprintf(r, " on %d", l.Lower)
	}
	if l.Master != 0 {
		fmt.Fprintf(r, " in %d", l.Master)
	}
	if l.VLAN != 0 {
		fmt.Fprintf(r, " tag %d qinq %v", l.VLAN, l.QinQ)
	}
	r.line(" up %v mtu %d mac %s bus %v driver %q queues %d", l.Up, l.MTU, net.HardwareAddr(l.MAC[:]), l.Bus, l.Driver, l.Queues)
	r.line("\t%s", features(l.Feature))
	if l.XDP != 0 || l.XDPFeatures != 0 {
		r.line("\tXDP program %d generic %v, driver's abilities %#x", l.XDP, l.XDPGeneric, l.XDPFeatures)
	}
	if l.Qdisc.Root != "" {
		r.line("\tqdisc %+v", l.Qdisc)
	}
	if saved, ok := o.Saved[l.Name]; ok {
		r.line("\tbefore us: %v", saved)
	}
}

func features(f state.Features) string {
	var words []string
	for _, x := range []struct {
		name string
		f    state.Feature
	}{{"rx-gro", f.GRO}, {"rx-gro-list", f.GROList}, {"rx-gro-hw", f.GROHW}, {"rx-lro", f.LRO}, {"rx-vlan-hw-parse", f.RxVLAN}} {
		word := x.name + " off"
		if x.f.On {
			word = x.name + " on"
		}
		if x.f.Fixed {
			word += " [fixed]"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// decided prints what the plan is and why.
func (r *report) decided(d state.Report) {
	r.line("hook %s: %s", d.Hook, d.HookReason)
	for _, p := range d.Ports {
		r.line("port %s [%s] %s", p.Name, p.Networks, p.Path)
		r.line("\thook %s: %s", p.Hook, p.HookReason)
		r.line("\treceive %s: %s", p.Receive, p.ReceiveReason)
		r.line("\tengine %s: %s", p.Engine, p.EngineReason)
	}
	for _, n := range d.Notices {
		r.line("notice: %s", n)
	}
}
