// SPDX-License-Identifier: Apache-2.0

// Package topo builds a home router, its LAN and its provider inside a test
// VM, each in a network namespace:
//
//	host1 eth0 ── lan1 ┐                                  ┌ lo: the server
//	                   ├ br-lan  router  wan ── line  provider
//	host2 eth0 ── lan2 ┘
//
// The router is configured as OpenWrt would do it: br-lan, masquerade for
// IPv4, a routed prefix for IPv6, the rules in the shape that fw4 prints, and
// for PPPoE the device pppoe-wan. WriteConfig writes what /etc/config of that
// router holds. Over PPPoE, discovery is between pppd and pppoe-server, and the
// packets of the session are the kernel's on both ends (see kpppd). With DS-Lite
// (RFC 6333) WAN has only IPv6, and the router has a tunnel to the provider's
// AFTR, which does the NAT.
package topo

import (
	"errors"
	"fmt"
	"os/exec"
	"time"

	"fastpath/src/testkit"
)

// Variant is a way to connect the router.
type Variant struct {
	Name   string
	Bridge bool // LAN is br-lan with lan1 and lan2; else only lan1, without a bridge
	VLAN   int  // WAN is on this VLAN of wan; 0: untagged
	PPPoE  bool // WAN is PPPoE; else static addresses
	DSLite bool // WAN has IPv6 only, and IPv4 goes through it in a tunnel; not with PPPoE
}

// The variants.
var (
	Plain     = Variant{Name: "plain"}
	Bridge    = Variant{Name: "bridge", Bridge: true}
	VLAN      = Variant{Name: "vlan", Bridge: true, VLAN: 35}
	PPPoE     = Variant{Name: "pppoe", Bridge: true, PPPoE: true}
	PPPoEVLAN = Variant{Name: "pppoe-vlan", Bridge: true, VLAN: 35, PPPoE: true}
	DSLite    = Variant{Name: "ds-lite", Bridge: true, VLAN: 35, DSLite: true}
)

// Variants are those that every kernel's flowtable can carry, the simplest first.
var Variants = []Variant{Plain, Bridge, VLAN, PPPoE, PPPoEVLAN}

// LAN is the device with the router's LAN addresses.
func (v Variant) LAN() string {
	if v.Bridge {
		return "br-lan"
	}
	return "lan1"
}

// Lower is the Ethernet device of WAN: wan or wan.35.
func (v Variant) Lower() string { return v.tagged("wan") }

// WAN is the device with the router's WAN addresses; with DS-Lite see also Tunnel.
func (v Variant) WAN() string {
	if v.PPPoE {
		return "pppoe-wan"
	}
	return v.Lower()
}

// Tunnel is the router's DS-Lite device, by netifd's naming; "" without.
func (v Variant) Tunnel() string {
	if v.DSLite {
		return "ds-dslite"
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
	if v.VLAN == 0 {
		return device
	}
	return fmt.Sprintf("%s.%d", device, v.VLAN)
}

// Addresses (RFC 5737, RFC 3849). Server is behind the provider's end of WAN.
const (
	Host1v4, Host1v6   = "192.168.1.101", "2001:db8:1::101"
	Host2v4, Host2v6   = "192.168.1.102", "2001:db8:1::102"
	RouterLANv4        = "192.168.1.1"
	RouterLANv6        = "2001:db8:1::1"
	LANPrefixv6        = "2001:db8:1::/64"
	RouterWANv4        = "198.51.100.2"
	RedialledWANv4     = "198.51.100.3"     // PPPoE's two addresses take turns
	RouterWANv6        = "2001:db8:ffff::2" // not with PPPoE: link-local addresses do
	ProviderWANv4      = "198.51.100.1"
	ProviderWANv6      = "2001:db8:ffff::1"
	Serverv4, Serverv6 = "203.0.113.10", "2001:db8:5::10"
	AFTRv4             = "198.51.100.9" // what the provider's NAT makes of DS-Lite's hosts
)

// Net is a built topology.
type Net struct {
	Variant  Variant
	Host1    *testkit.Netns
	Host2    *testkit.Netns // nil without a bridge
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
	all := []*testkit.Netns{n.Router, n.Provider, n.Host1, n.Host2}
	for i, ns := range all {
		if ns == nil {
			return all[:i]
		}
	}
	return all
}

func (n *Net) makeNamespaces() error {
	want := []struct {
		name string
		at   **testkit.Netns
	}{{"router", &n.Router}, {"provider", &n.Provider}, {"host1", &n.Host1}, {"host2", &n.Host2}}
	if !n.Variant.Bridge {
		want = want[:3]
	}
	for _, w := range want {
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

// startLAN gives the hosts and the router's LAN their addresses.
func (n *Net) startLAN() error {
	if err := n.startRouterLAN(); err != nil {
		return err
	}
	for _, h := range []struct {
		ns     *testkit.Netns
		v4, v6 string
	}{{n.Host1, Host1v4, Host1v6}, {n.Host2, Host2v4, Host2v6}} {
		if h.ns == nil {
			continue
		}
		err := ip(h.ns, "addr add "+h.v4+"/24 dev eth0", "addr add "+h.v6+"/64 dev eth0 nodad", "link set eth0 up",
			"route add default via "+RouterLANv4, "route add default via "+RouterLANv6)
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *Net) startRouterLAN() error {
	lan := n.Variant.LAN()
	if n.Variant.Bridge {
		// As netifd makes it. A delay above 0 holds even without STP.
		if err := ip(n.Router, "link add br-lan type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
			"link set lan1 master br-lan", "link set lan2 master br-lan", "link set lan2 up"); err != nil {
			return err
		}
	}
	return ip(n.Router, "link set lan1 up", "link set "+lan+" up",
		"addr add "+RouterLANv4+"/24 dev "+lan, "addr add "+RouterLANv6+"/64 dev "+lan+" nodad")
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
