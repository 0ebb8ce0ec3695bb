// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
)

// peerTunnel is the provider's tunnel device.
const peerTunnel = "aftr"

// aftrRules are the AFTR's NAT. The server is in the same namespace, so it
// stands where local delivery is.
const aftrRules = `table ip aftr {
	chain nat { type nat hook input priority 100; iifname "` + peerTunnel + `" snat to ` + AFTRv4 + `; }
}
`

// tunnelMTU is the longest packet that the tunnel carries without fragments: what
// WAN carries less the outer header (RFC 2003 section 3.1, RFC 6333 section 5.3).
func (v Variant) tunnelMTU() int {
	mtu := 1500
	if v.PPPoE {
		mtu = 1492
	}
	if v.Mode == "ipip" {
		return mtu - 20
	}
	return mtu - 40
}

// startDSLite gives both ends IPv6 and the tunnel.
func (n *Net) startDSLite() error {
	v := n.Variant
	_, err := feed(n.Provider.Command("nft", "-f", "-"), aftrRules)
	return errors.Join(err,
		ip(n.Provider, "addr add "+ProviderWANv6+"/64 dev "+v.line()+" nodad"),
		n.routeBack("via "+RouterWANv6),
		ip(n.Router, "addr add "+RouterWANv6+"/64 dev "+v.Lower()+" nodad", "route add default via "+ProviderWANv6),
		n.addTunnels("ip6tnl mode ipip6"),
		ip(n.Provider,
			"route add 192.168.1.0/24 dev "+peerTunnel,
			"route add "+AFTRv4+" dev "+peerTunnel), // an answer needs a route even before NAT gives it its address
		ip(n.Router, "route add 0.0.0.0/0 dev "+v.Tunnel()))
}

// startTunnel sends one family through the tunnel of Mode.
func (n *Net) startTunnel() error {
	v := n.Variant
	if v.Mode == "ipip" {
		return errors.Join(n.addTunnels("ipip"),
			ip(n.Provider, "route add "+RouterTunnelv4+" dev "+peerTunnel),
			ip(n.Router, "addr add "+RouterTunnelv4+"/32 dev "+v.Tunnel(),
				"route add 0.0.0.0/1 dev "+v.Tunnel(), "route add 128.0.0.0/1 dev "+v.Tunnel()))
	}
	return errors.Join(n.addTunnels("ip6tnl mode "+v.Mode),
		n.routeBack("dev "+peerTunnel), ip(n.Router, "route add 2000::/3 dev "+v.Tunnel()))
}

// addTunnels makes both ends. Neither sends the encapsulation limit option (RFC 2473
// section 6.6): no fast path takes it.
func (n *Net) addTunnels(kind string) error {
	v := n.Variant
	local, remote, limit := RouterWANv6, ProviderWANv6, " encaplimit none"
	if v.Mode == "ipip" {
		local, remote, limit = RouterWANv4, ProviderWANv4, ""
	}
	const add = "link add name %s mtu %d type %s local %s remote %s ttl 64%s"
	return errors.Join(
		ip(n.Provider, fmt.Sprintf(add, peerTunnel, v.tunnelMTU(), kind, remote, local, limit), "link set "+peerTunnel+" up"),
		ip(n.Router, fmt.Sprintf(add, v.Tunnel(), v.tunnelMTU(), kind, local, remote, limit), "link set "+v.Tunnel()+" up"))
}
