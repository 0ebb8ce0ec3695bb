// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
)

// tunnelMTU is the longest IPv4 packet that DS-Lite's tunnel carries without
// fragments: 1500 less the outer IPv6 header (RFC 6333 section 5.3).
const tunnelMTU = 1460

// aftr is the provider's tunnel device.
const aftr = "aftr"

// aftrRules are the AFTR's NAT. The server is in the same namespace, so it
// stands where local delivery is.
const aftrRules = `table ip aftr {
	chain nat { type nat hook input priority 100; iifname "` + aftr + `" snat to ` + AFTRv4 + `; }
}
`

// startTunnel gives both ends IPv6 and the tunnel. Neither sends the
// encapsulation limit option (RFC 2473 section 6.6): no fast path takes it.
func (n *Net) startTunnel() error {
	v := n.Variant
	_, err := feed(n.Provider.Command("nft", "-f", "-"), aftrRules)
	return errors.Join(err,
		ip(n.Provider,
			"addr add "+ProviderWANv6+"/64 dev "+v.line()+" nodad",
			"route add "+LANPrefixv6+" via "+RouterWANv6,
			addTunnel(aftr, ProviderWANv6, RouterWANv6), "link set "+aftr+" up",
			"route add 192.168.1.0/24 dev "+aftr,
			"route add "+AFTRv4+" dev "+aftr), // an answer needs a route even before NAT gives it its address
		ip(n.Router,
			"addr add "+RouterWANv6+"/64 dev "+v.Lower()+" nodad",
			"route add default via "+ProviderWANv6,
			addTunnel(v.Tunnel(), RouterWANv6, ProviderWANv6), "link set "+v.Tunnel()+" up",
			"route add 0.0.0.0/0 dev "+v.Tunnel()))
}

func addTunnel(name, local, remote string) string {
	return fmt.Sprintf("link add name %s mtu %d type ip6tnl mode ipip6 local %s remote %s ttl 64 encaplimit none",
		name, tunnelMTU, local, remote)
}
