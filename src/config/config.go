// SPDX-License-Identifier: Apache-2.0

// Package config turns the sections of /etc/config/fastpath, network and
// firewall into one typed, defaulted, checked Config.
package config

import "net/netip"

// Config is everything the files say. Its zero value means: not enabled.
type Config struct {
	Notices      []Problem // what is valid, but not what its owner would expect
	Main         Main
	Ports        []Port
	Policies     []Policy
	Drops        []Drop
	Sources      Sources         // of all Drops; DropLists fills it in
	DropProblems []string        // what is wrong with their files; DropLists too
	Interfaces   []Interface     // /etc/config/network: config interface
	GRO          map[string]bool // /etc/config/network: config device … option gro; only where written
	Zones        []Zone          // /etc/config/firewall: config zone, in order
	Firewall     Firewall
	QoSRules     []Policy // /etc/config/firewall: what rules with target DSCP or MARK match; to bypass, before Policies
	Shapers      []Shaper // what sqm, qosify and qosmate are told to shape
}

// Hooks that Main.Hook can ask for.
const (
	HookAuto    = "auto"
	HookEarly   = "early_ingress"
	HookIngress = "ingress"
	HookOff     = "off"
)

// Engines of a port.
const (
	EngineFlowtable = "flowtable"
	EngineXDP       = "xdp"
	EngineAFXDP     = "afxdp"
	EngineNone      = "none"
)

// Modes of an engine's XDP program.
const (
	XDPNative  = "native"
	XDPGeneric = "generic"
)

// Receive modes of a port.
const (
	ReceiveAuto     = "auto"
	ReceiveBulk     = "bulk"
	ReceiveFraglist = "fraglist"
	ReceiveGRO      = "gro"
	ReceiveOff      = "off"
	ReceiveKeep     = "keep"
)

// Modes of Main.SourceValidation.
const (
	ValidationOff    = "off"
	ValidationLoose  = "loose"
	ValidationStrict = "strict"
)

// Actions of a policy.
const (
	Accelerate = "accelerate"
	Bypass     = "bypass"
)

// Pos is where something was written: the file's path and its line.
type Pos struct {
	File string
	Line int
}

// Main is config fastpath 'main'.
type Main struct {
	Pos              Pos // no file: there is no such section, and these are the defaults
	Enabled          bool
	Hook             string // auto, early_ingress, ingress, off
	HookNumber       uint32 // what the kernel calls early_ingress; not 0 (ingress) or 1 (egress)
	CTMark           uint32 // exactly one bit
	SourceValidation string // off, loose, strict
	Counters         bool
	DeferPackets     uint32
}

// Port is one config port section. Exactly one of Networks and Device is given.
type Port struct {
	Pos      Pos
	Networks []string // logical interfaces
	Device   string   // or a device
	Engine   string   // flowtable, xdp, afxdp, none
	XDPMode  string   // native, generic
	ZeroCopy bool
	Receive  string // auto, bulk, fraglist, gro, off, keep
	Force    bool
}

// Policy is one config policy section. Empty fields match everything.
type Policy struct {
	Pos      Pos
	Name     string
	Action   string   // accelerate, bypass
	Src      []string // zones of the originator
	Dest     []string // zones
	Proto    []string // tcp, udp
	Family   string   // "", ipv4, ipv6
	SrcIP    []netip.Prefix
	DestIP   []netip.Prefix
	SrcPort  []PortRange
	DestPort []PortRange
	DSCP     []uint8 // 0..63
	Mark     Mark
	Set      string
}

// PortRange is inclusive; a single port has First == Last.
type PortRange struct{ First, Last uint16 }

// Mark matches where mark & Mask == Value; Set is false when not given.
type Mark struct {
	Set         bool
	Value, Mask uint32
}

// Drop is one config drop section.
type Drop struct {
	Pos     Pos
	Name    string
	Sources []netip.Prefix
	File    string
}

// Interface is one logical interface of /etc/config/network.
type Interface struct {
	Pos    Pos
	Name   string
	Proto  string
	Device string // "" for device-less protocols
}

// l3Prefix is what netifd's scripts put before an interface's name to name its device.
var l3Prefix = map[string]string{
	"pppoe": "pppoe-", "dslite": "ds-", "map": "map-", "ipip": "ipip-", "6in4": "6in4-", "6rd": "6rd-",
}

// L3Device is the device that carries the interface's addresses by netifd's
// naming: pppoe-NAME for PPPoE, ds-NAME for DS-Lite, …, else the device itself.
func (i Interface) L3Device() string {
	if prefix := l3Prefix[i.Proto]; prefix != "" {
		return prefix + i.Name
	}
	return i.Device
}

// Zone is one zone of /etc/config/firewall.
type Zone struct {
	Pos      Pos
	Name     string
	Networks []string
	Devices  []string
	Masq6    bool // IPv6 is masqueraded (NAT66)
}

// Shaper is a queue that one of OpenWrt's QoS packages is told to keep.
type Shaper struct {
	Service string // sqm-scripts, qosify, qosmate
	Device  string // what it shapes,
	Network string // or the logical interface
}

// Firewall is what /etc/config/firewall says about itself.
type Firewall struct {
	Present           bool // the file exists: fw4 is expected
	FlowOffloading    bool
	FlowOffloadingHW  bool // counts only with FlowOffloading, so it isn't set without
	FlowOffloadingPos Pos
	TurboACC          Pos // where turboacc is told to write FlowOffloading; zero: it isn't
}
