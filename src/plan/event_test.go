// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fastpath/src/state"
)

// The notation of the golden files: one event a line, from an empty router to
// the one that is looked at. The same lines drive the random walks.
//
//	kernel 6.12 | 7.3          what becomes of a listed device that goes
//	KIND NAME [WORD…]          a new link; KIND is nic, wlan, wwan, dsa, lo or rtnetlink's
//	                           on=LINK (or an index) in=BRIDGE tag=N qinq xdp mac=no down addr mtu=N
//	                           of a tunnel: via=LINK mode=MODE odd=OPTION (_ for a blank)
//	tunnel NAME [WORD…]        its properties change
//	                           gro list hw lro rxvlan: on; gro! …: on and fixed; -gro: off (NICs have gro)
//	del, rename, join, leave   NAME [NEW | BRIDGE]
//	addr NAME | noaddr NAME    it gets or loses its address
//	ethtool NAME WORD…         the user's own change of offloads
//	iface NAME PROTO DEVICE|- L3|- [ZONE]   netifd's interface; up with an l3 device
//	session DEVICE | hangup DEVICE
//	fw4 GENERATION [offload] [hardware] | flush
//	early ok|REASON, ingress …, marks …, fib …   the trials' answers
//	tc NAME [QDISC[!]] [ifb=LINK] [police] [bpf]   its root qdisc (!: it limits) and what is at tc ingress
//	mix NAME KIND FORWARDED LOCAL FLOWS [COMPARED…] | nomix NAME   its traffic, as the agent tells
//	multicast NAME WHY… | nomulticast NAME, steered NAME CPUS, driver NAME DRIVER, udpforward NAME, translator MODULE
//	sets FAMILY TABLE [dscp] [mark] [priority]   somebody's table whose rules set these; none: it goes
//	xdp NAME | noxdp NAME      somebody's XDP program comes or goes
//	refused NAME KIND[,generic][,zero-copy][,force] REASON   an engine that was tried
//	retry NAME                 the engine may be tried again
//	confirmed | unconfirmed | ipsec | passive REASON | accelerator NAME
//	flowtable TABLE NAME DEVICE,… [hardware]   somebody else's
//	saved NAME [WORD…]         left in saved.json by a run before
//	acct VALUE [REASON…] | acct-saved VALUE   see sysctlEvent
//	route, address, rule, moved, lost, … see routingEvent
//	installed HOOK GENERATION DEVICE,…   a table left by a run before, without rules
func (r *router) event(line string) error {
	w := strings.Fields(line)
	args := w[1:]
	switch w[0] {
	case "del":
		return r.del(args[0])
	case "rename":
		return r.rename(args[0], args[1])
	case "join":
		r.link(args[0]).Master = r.link(args[1]).Index
	case "leave":
		r.link(args[0]).Master = 0
	case "addr", "noaddr":
		r.link(args[0]).Addressed = w[0] == "addr"
	case "iface":
		r.iface(args)
	case "tunnel":
		return r.tunnelEvent(args)
	case "tc":
		return r.tcEvent(args)
	case "sets":
		r.setsEvent(args)
	case "session":
		r.o.Sessions = append(r.o.Sessions, state.Session{ID: uint16(len(r.o.Sessions) + 1), Device: args[0]})
	case "hangup":
		r.o.Sessions = slices.DeleteFunc(r.o.Sessions, func(s state.Session) bool { return s.Device == args[0] })
	case "installed":
		number, err := strconv.ParseUint(args[0], 10, 32)
		r.o.Table = &state.Table{Generation: args[1], Flowtable: state.Flowtable{
			Number: uint32(number), Devices: strings.Split(args[2], ","), Counter: true}}
		return err
	default:
		if !r.sysctlEvent(w[0], args) && !r.engineEvent(w[0], args) && !r.routingEvent(w[0], args) && !r.receiveEvent(w[0], args) && !r.kernelEvent(w[0], args, strings.TrimSpace(strings.TrimPrefix(line, w[0]))) {
			return r.add(w[0], args)
		}
	}
	return nil
}

// kernelEvent is one of the kernel's abilities and modules, or the firewall's.
func (r *router) kernelEvent(word string, args []string, rest string) bool {
	switch word {
	case "kernel":
		r.o.Release, r.keepsNames = rest, rest != "6.12"
	case "fw4":
		r.o.FW4 = state.FW4{Present: true, Generation: args[0],
			Offload: slices.Contains(args, "offload"), Hardware: slices.Contains(args, "hardware")}
	case "flush": // fw4 flush deletes everybody's tables
		r.o.FW4, r.o.Table, r.o.Checks = state.FW4{}, nil, nil
	case "early":
		r.o.Hooks.Early = ability(rest)
	case "ingress":
		r.o.Hooks.Ingress = ability(rest)
	case "marks":
		r.o.Marks = ability(rest)
	case "fib":
		r.o.FIB = ability(rest)
	case "loose":
		r.o.FIBLoose = ability(rest)
	case "confirmed", "unconfirmed":
		r.o.Hooks.Confirmed = word == "confirmed"
	case "passive":
		r.o.Passive = rest
	case "ipsec":
		r.o.IPsec.OK = true
	case "flowtable":
		r.o.Flowtables = []state.ForeignFlowtable{{Table: "inet " + args[0], Name: args[1],
			Devices: strings.Split(args[2], ","), Hardware: slices.Contains(args, "hardware")}}
	case "accelerator":
		r.o.Accelerators = append(r.o.Accelerators, rest)
	default:
		return false
	}
	return true
}

func ability(answer string) state.Ability {
	if answer == "ok" {
		return state.Ability{OK: true}
	}
	return state.Ability{Reason: answer}
}

func (r *router) iface(args []string) {
	i := state.Interface{Name: args[0], Proto: args[1], Device: strings.Trim(args[2], "-")}
	if args[3] != "-" {
		i.L3Device, i.Up = args[3], true
	}
	if len(args) > 4 {
		i.Zone = args[4]
	}
	r.o.Interfaces = slices.DeleteFunc(r.o.Interfaces, func(old state.Interface) bool { return old.Name == i.Name })
	r.o.Interfaces = append(r.o.Interfaces, i)
}

// add makes a link of a kind.
func (r *router) add(kind string, args []string) error {
	if r.link(args[0]) != nil {
		return fmt.Errorf("%s: EEXIST", args[0])
	}
	r.index++
	l := state.Link{Index: r.index, Name: args[0], Kind: kind, MTU: 1500, Up: true, MAC: [6]byte{2, 0, 0, 0, 0, byte(r.index)}}
	switch kind {
	case "lo":
		l.Kind = ""
	case "nic", "wlan", "wwan":
		l.Kind, l.Bus = "", true
		l.Feature.GRO.On = true
	case "dsa":
		l.Bus, l.DevType, l.Feature.GRO.On = true, "dsa", true
	}
	if kind == "wlan" || kind == "wwan" {
		l.DevType = kind
	}
	for _, word := range args[1:] {
		if err := r.property(&l, word); err != nil {
			return err
		}
	}
	r.o.Links = append(r.o.Links, l)
	r.original[l.Name] = l.Feature.Offloads()
	if saved, ok := r.o.Saved[l.Name]; ok {
		r.original[l.Name] = saved
	}
	return nil
}

func (r *router) property(l *state.Link, word string) (err error) {
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "on":
		if lower := r.link(value); lower != nil {
			l.Lower = lower.Index
		} else {
			l.Lower, err = strconv.Atoi(value)
		}
	case "in":
		l.Master = r.link(value).Index
	case "tag":
		var tag int
		tag, err = strconv.Atoi(value)
		l.VLAN = uint16(tag)
	case "xdp":
		l.XDP = 7
	case "qinq":
		l.QinQ = true
	case "down":
		l.Up = false
	case "addr":
		l.Addressed = true
	case "via", "mode", "odd", "mtu":
		return r.tunnelProperty(l, key, value)
	case "mac":
		l.MAC = [6]byte{}
	default:
		if !feature(&l.Feature, word) {
			err = fmt.Errorf("%s: unknown word %q", l.Name, word)
		}
	}
	return err
}

// feature sets one feature: gro, -gro, gro!.
func feature(f *state.Features, word string) bool {
	name := strings.Trim(word, "-!")
	to := map[string]*state.Feature{"gro": &f.GRO, "list": &f.GROList, "hw": &f.GROHW, "lro": &f.LRO, "rxvlan": &f.RxVLAN}[name]
	if to == nil {
		return false
	}
	*to = state.Feature{On: word[0] != '-', Fixed: strings.HasSuffix(word, "!")}
	return true
}

// del removes a link, the VLANs on it, and itself from flowtable and checks as the kernel does.
func (r *router) del(name string) error {
	l := r.link(name)
	if l == nil {
		return errNoDevice
	}
	index := l.Index
	r.o.Links = slices.DeleteFunc(r.o.Links, func(l state.Link) bool { return l.Index == index })
	delete(r.original, name)
	delete(r.o.Saved, name)
	delete(r.o.Engines, name)
	delete(r.o.Refused, name)
	if t := r.o.Table; t != nil && !r.keepsNames {
		t.Flowtable.Devices = slices.DeleteFunc(t.Flowtable.Devices, func(d string) bool { return d == name })
	}
	if !r.keepsNames {
		r.o.Checks = slices.DeleteFunc(r.o.Checks, func(d string) bool { return d == name })
	}
	var upper []string
	for i := range r.o.Links {
		if l := &r.o.Links[i]; l.Master == index {
			l.Master = 0
		} else if l.Lower == index && l.Kind == "vlan" {
			upper = append(upper, l.Name)
		}
	}
	for _, u := range upper {
		if r.link(u) != nil {
			_ = r.del(u)
		}
	}
	return nil
}

// rename: a port takes what was saved for it along.
func (r *router) rename(from, to string) error {
	l := r.link(from)
	if l == nil || r.link(to) != nil {
		return errNoDevice
	}
	l.Name = to
	r.original[to] = r.original[from]
	delete(r.original, from)
	delete(r.o.Saved, to)
	if saved, ok := r.o.Saved[from]; ok {
		r.o.Saved[to] = saved
		delete(r.o.Saved, from)
	}
	if e, runs := r.o.Engines[from]; runs {
		r.o.Engines[to] = e
		delete(r.o.Engines, from)
	}
	delete(r.o.Refused, from) // the port has changed
	if r.keepsNames {
		return nil
	}
	lists := []*[]string{&r.o.Checks}
	if r.o.Table != nil {
		lists = append(lists, &r.o.Table.Flowtable.Devices)
	}
	for _, list := range lists {
		for i := range *list {
			if (*list)[i] == from {
				(*list)[i] = to
			}
		}
		slices.Sort(*list)
	}
	return nil
}
