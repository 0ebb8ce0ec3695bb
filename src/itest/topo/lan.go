// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"

	"fastpath/src/testkit"
)

// network is one of the router's networks behind NAT; its prefixes end in its number.
type network struct {
	name   string // also its zone's
	device string
	number int
}

// guests is the network beside LAN: the one of VLANFiltering's host2, the container's.
func (v Variant) guests() (w network, ok bool) {
	switch {
	case v.Filtering:
		return network{name: "guest", device: "br-lan.7", number: 7}, true
	case v.Container:
		return network{name: "docker", device: "docker0", number: 8}, true
	}
	return network{}, false
}

// private is the bridge that Container has beside docker0, and that no zone knows:
// it connects the container's eth1 and host1's.
var private = network{device: "virbr0", number: 9}

func (w network) v4(host int) string { return fmt.Sprintf("192.168.%d.%d", w.number, host) }

func (w network) v6(host int) string { return fmt.Sprintf("2001:db8:%d::%d", w.number, host) }

// prefixes are those that the provider routes to the router.
func (v Variant) prefixes() []string {
	all := []string{LANPrefixv6}
	if w, ok := v.guests(); ok {
		all = append(all, w.v6(0)+"/64")
	}
	return all
}

// lan is the network of LAN.
func (v Variant) lan() network { return network{name: "lan", device: v.LAN(), number: 1} }

// startLAN gives the hosts and the router's LAN their addresses.
func (n *Net) startLAN() error {
	v, lan := n.Variant, n.Variant.lan()
	err := errors.Join(n.makeBridge(), address(n.Router, lan), host(n.Host1, "eth0", lan, 101))
	if n.Host2 != nil && !v.Filtering {
		err = errors.Join(err, host(n.Host2, "eth0", lan, 102))
	}
	if w, ok := v.guests(); ok && err == nil {
		err = n.startGuests(w)
	}
	return err
}

// address gives the router its end of a network.
func address(router *testkit.Netns, w network) error {
	return ip(router, "link set "+w.device+" up",
		"addr add "+w.v4(1)+"/24 dev "+w.device, "addr add "+w.v6(1)+"/64 dev "+w.device+" nodad")
}

// host gives a host its end of a network, with the router as its gateway.
func host(ns *testkit.Netns, device string, w network, number int) error {
	return ip(ns,
		fmt.Sprintf("addr add %s/24 dev %s", w.v4(number), device),
		fmt.Sprintf("addr add %s/64 dev %s nodad", w.v6(number), device),
		"link set "+device+" up",
		"route add default via "+w.v4(1), "route add default via "+w.v6(1))
}

// makeBridge makes br-lan as netifd does, and br-lan's VLANs. A delay above 0
// holds even without STP.
func (n *Net) makeBridge() error {
	if !n.Variant.Bridge {
		return ip(n.Router, "link set lan1 up")
	}
	filter, vlans := "0", []string{}
	if n.Variant.Filtering {
		filter = "1"
		vlans = []string{"link add link br-lan name br-lan.1 type vlan id 1",
			"link add link br-lan name br-lan.7 type vlan id 7"}
	}
	err := ip(n.Router, append([]string{
		"link add br-lan type bridge stp_state 0 forward_delay 0 mcast_snooping 0 vlan_filtering " + filter + " vlan_default_pvid 0",
		"link set lan1 master br-lan", "link set lan2 master br-lan",
		"link set lan1 up", "link set lan2 up", "link set br-lan up"}, vlans...)...)
	if err != nil || !n.Variant.Filtering {
		return err
	}
	_, err = feed(n.Router.Command("bridge", "-batch", "-"), `vlan add dev br-lan vid 1 self
vlan add dev br-lan vid 7 self
vlan add dev lan1 vid 1 pvid untagged
vlan add dev lan2 vid 7
`)
	return err
}

// startGuests makes the network beside LAN.
func (n *Net) startGuests(w network) error {
	if n.Variant.Filtering {
		return errors.Join(address(n.Router, w),
			ip(n.Host2, "link set eth0 up", "link add link eth0 name eth0.7 type vlan id 7"),
			host(n.Host2, "eth0.7", w, 102))
	}
	return errors.Join(
		ip(n.Router, "link add docker0 type bridge forward_delay 0", "link add virbr0 type bridge forward_delay 0",
			"link add vethd0 type veth peer name eth0 netns guest", "link set vethd0 master docker0 up",
			"link add vethv0 type veth peer name eth1 netns guest", "link set vethv0 master virbr0 up",
			"link add vethv1 type veth peer name eth1 netns host1", "link set vethv1 master virbr0 up"),
		address(n.Router, w), host(n.Guest, "eth0", w, 102), address(n.Router, private),
		ip(n.Guest, "addr add "+private.v4(102)+"/24 dev eth1", "link set eth1 up"),
		ip(n.Host1, "addr add "+Privatev4+"/24 dev eth1", "link set eth1 up"))
}
