// SPDX-License-Identifier: Apache-2.0

// Package topo builds a home router, its LAN and its provider inside a test
// VM, each in a network namespace:
//
//	host1 eth0 ── lan1 ┐                                  ┌ lo: the server
//	                   ├ br-lan  router  wan ── line  provider
//	host2 eth0 ── lan2 ┘                                  └ line2: the second WAN's
//
// The router is configured as OpenWrt would do it: br-lan, masquerade for
// IPv4, a routed prefix for IPv6, the rules in the shape that fw4 prints, and
// for PPPoE the device pppoe-wan. WriteConfig writes what /etc/config of that
// router holds. Over PPPoE, discovery is between pppd and pppoe-server, and the
// packets of the session are the kernel's on both ends (see kpppd). With DS-Lite
// (RFC 6333) WAN has only IPv6, and the router has a tunnel to the provider's
// AFTR, which does the NAT. What else a Variant may have is told at its fields.
package topo

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"fastpath/src/testkit"
)

// Variant is a way to connect the router.
type Variant struct {
	Name   string
	Bridge bool // LAN is br-lan with lan1 and lan2; else only lan1, without a bridge
	// Filtering: br-lan filters VLANs. LAN is br-lan.1, untagged on lan1; host2 is in
	// the guests' network, br-lan.7, tagged on lan2. With Bridge.
	Filtering bool
	// Container: docker0 is another bridge, with a zone of its own, a veth as its port
	// and Net.Guest at the other end. Bridge private is in no zone.
	Container bool
	Service   int  // WAN's VLAN is inside this 802.1ad tag; 0: it isn't
	VLAN      int  // WAN is on this VLAN of wan; 0: untagged
	PPPoE     bool // WAN is PPPoE; else static addresses
	DSLite    bool // WAN has IPv6 only, and IPv4 goes through it in a tunnel; not with PPPoE
	// Mode is that of a tunnel to the provider, in iproute2's words: ipip carries
	// IPv4 over IPv4, ip6ip6 IPv6 over IPv6; "": no tunnel. The other family goes by WAN.
	Mode string
	// SecondWAN: wan2 has static addresses and another default route, with a higher metric,
	// to the same server. The provider answers by the line by which it was asked.
	SecondWAN bool
}

// The variants.
var (
	Plain     = Variant{Name: "plain"}
	Bridge    = Variant{Name: "bridge", Bridge: true}
	VLAN      = Variant{Name: "vlan", Bridge: true, VLAN: 35}
	PPPoE     = Variant{Name: "pppoe", Bridge: true, PPPoE: true}
	PPPoEVLAN = Variant{Name: "pppoe-vlan", Bridge: true, VLAN: 35, PPPoE: true}
	DSLite    = Variant{Name: "ds-lite", Bridge: true, VLAN: 35, DSLite: true}

	TwoWANs       = Variant{Name: "two-wans", Bridge: true, SecondWAN: true}
	QinQ          = Variant{Name: "qinq", Bridge: true, Service: 100, VLAN: 35}
	PPPoEQinQ     = Variant{Name: "pppoe-qinq", Bridge: true, Service: 100, VLAN: 35, PPPoE: true}
	VLANFiltering = Variant{Name: "vlan-filtering", Bridge: true, Filtering: true}
	Container     = Variant{Name: "container", Bridge: true, Container: true}
	IPIP          = Variant{Name: "ipip", Bridge: true, Mode: "ipip"}
	SixInSix      = Variant{Name: "6in6", Bridge: true, Mode: "ip6ip6"}
	IPIPPPPoE     = Variant{Name: "ipip-pppoe", Bridge: true, PPPoE: true, Mode: "ipip"}
)

// Variants are those that every kernel's flowtable can carry, the simplest first.
// Container's veth keeps the router from early_ingress.
var Variants = []Variant{Plain, Bridge, VLAN, PPPoE, PPPoEVLAN, TwoWANs, QinQ, VLANFiltering, Container}

// LAN is the device with the router's LAN addresses.
func (v Variant) LAN() string {
	switch {
	case v.Filtering:
		return "br-lan.1"
	case v.Bridge:
		return "br-lan"
	}
	return "lan1"
}

// Lower is the Ethernet device of WAN: wan, wan.35 or, with Service, wan.100.35.
func (v Variant) Lower() string { return v.tagged("wan") }

// WAN is the device with the router's WAN addresses; with DSLite or Mode see also Tunnel.
func (v Variant) WAN() string {
	if v.PPPoE {
		return "pppoe-wan"
	}
	return v.Lower()
}

// Tunnel is the router's tunnel device, by netifd's naming where it has one; "" without.
func (v Variant) Tunnel() string {
	switch {
	case v.DSLite:
		return "ds-dslite"
	case v.Mode == "ipip":
		return "ipip-tunnel"
	case v.Mode != "":
		return "tunnel"
	}
	return ""
}

// line is the Ethernet device at the provider's end.
func (v Variant) line() string { return v.tagged("line") }

// peer is the device with the provider's addresses.
func (v Variant) peer() string {
	if v.PPPoE {
		return "pppoe-line"
	}
	return v.line()
}

func (v Variant) tagged(device string) string {
	for _, tag := range v.tags() {
		device = fmt.Sprintf("%s.%d", device, tag)
	}
	return device
}

// tags are WAN's VLAN tags, the outer first.
func (v Variant) tags() []int {
	return slices.DeleteFunc([]int{v.Service, v.VLAN}, func(tag int) bool { return tag == 0 })
}

// Addresses (RFC 5737, RFC 3849). Server is behind the provider's end of WAN.
const (
	Host1v4, Host1v6   = "192.168.1.101", "2001:db8:1::101"
	Host2v4, Host2v6   = "192.168.1.102", "2001:db8:1::102" // with Filtering see Guest
	RouterLANv4        = "192.168.1.1"
	RouterLANv6        = "2001:db8:1::1"
	LANPrefixv6        = "2001:db8:1::/64"
	RouterWANv4        = "198.51.100.2"
	RedialledWANv4     = "198.51.100.3"     // PPPoE's two addresses take turns
	RouterWANv6        = "2001:db8:ffff::2" // with PPPoE only below a tunnel: link-local addresses do
	ProviderWANv4      = "198.51.100.1"
	ProviderWANv6      = "2001:db8:ffff::1"
	RouterWAN2v4       = "192.0.2.2" // SecondWAN's
	RouterWAN2v6       = "2001:db8:fffe::2"
	ProviderWAN2v4     = "192.0.2.1"
	ProviderWAN2v6     = "2001:db8:fffe::1"
	Serverv4, Serverv6 = "203.0.113.10", "2001:db8:5::10"
	AFTRv4             = "198.51.100.9"  // what the provider's NAT makes of DS-Lite's hosts
	RouterTunnelv4     = "198.51.100.10" // the router's address in the tunnel, with Mode
	Privatev4          = "192.168.9.101" // of host1 on Container's private bridge
)

// Net is a built topology.
type Net struct {
	Variant  Variant
	Host1    *testkit.Netns
	Host2    *testkit.Netns // nil without a bridge
	Guest    *testkit.Netns // the container; nil without Container
	Router   *testkit.Netns
	Provider *testkit.Netns

	wires  Wires
	server *exec.Cmd // pppoe-server
	pppd   *exec.Cmd // the router's
}

// Build makes namespaces, wires, addresses, the PPPoE session and the
// firewall. Forwarding works when it returns. There can be one Net at a time.
func Build(v Variant, w Wires) (*Net, error) {
	n := &Net{Variant: v, wires: w}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"namespaces", n.makeNamespaces},
		{"wires", n.plug},
		{"firewall", n.startFirewall},
		{"LAN", n.startLAN},
		{"WAN", n.startWAN},
	} {
		if err := step.do(); err != nil {
			return nil, errors.Join(fmt.Errorf("topology %s: %s: %w", v.Name, step.name, err), n.Close())
		}
	}
	return n, nil
}

// Close ends the session, gives the VM its NICs back and deletes the namespaces.
func (n *Net) Close() error {
	return errors.Join(stop(n.pppd), stop(n.server), n.unplug(), n.deleteNamespaces())
}

func (n *Net) namespaces() []*testkit.Netns {
	all := []*testkit.Netns{n.Router, n.Provider, n.Host1, n.Host2, n.Guest}
	return slices.DeleteFunc(all, func(ns *testkit.Netns) bool { return ns == nil })
}

func (n *Net) makeNamespaces() error {
	for _, w := range []struct {
		name string
		at   **testkit.Netns
		want bool
	}{
		{"router", &n.Router, true}, {"provider", &n.Provider, true}, {"host1", &n.Host1, true},
		{"host2", &n.Host2, n.Variant.Bridge}, {"guest", &n.Guest, n.Variant.Container},
	} {
		if !w.want {
			continue
		}
		if err := ip(nil, "netns add "+w.name); err != nil {
			return err
		}
		*w.at = &testkit.Netns{Name: w.name}
		// Nobody else has our addresses: don't wait a second for an answer.
		if err := sysctl(*w.at, "net/ipv6/conf/all/accept_dad", "0", "net/ipv6/conf/default/accept_dad", "0"); err != nil {
			return err
		}
		if err := ip(*w.at, "link set lo up"); err != nil {
			return err
		}
	}
	return nil
}

func (n *Net) deleteNamespaces() error {
	var errs []error
	for _, ns := range n.namespaces() {
		errs = append(errs, ip(nil, "netns del "+ns.Name))
	}
	return errors.Join(errs...)
}

// stop ends a program that we started; a second signal follows when the first
// didn't help.
func stop(cmd *exec.Cmd) error {
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(terminate); err != nil {
		return nil // it has ended by itself
	}
	timer := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("stop %s: %w", cmd.Path, err)
	}
	return nil
}
