// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"strconv"
)

const (
	second     = "wan2" // the second WAN, which is never tagged
	secondPeer = "line2"
	// secondTable is the provider's routing table and mark for what came by line2.
	secondTable = 2
	metric      = 10 // of the default routes by WAN (UCI's option metric); twice of it of those by wan2
)

// startSecond connects wan2. The provider has one way to LAN's IPv6 prefix, by WAN,
// but answers by the line by which a connection came, as the Internet would with a
// prefix of each provider's own.
func (n *Net) startSecond() error {
	err := errors.Join(
		ip(n.Provider, "link set "+secondPeer+" up",
			"addr add "+ProviderWAN2v4+"/24 dev "+secondPeer, "addr add "+ProviderWAN2v6+"/64 dev "+secondPeer+" nodad"),
		ip(n.Router, "link set "+second+" up"), n.AddressSecond())
	for _, prefix := range n.Variant.prefixes() {
		err = errors.Join(err, ip(n.Provider, fmt.Sprintf("route add %s via %s table %d", prefix, RouterWAN2v6, secondTable)))
	}
	_, err2 := feed(n.Provider.Command("nft", "-f", "-"), fmt.Sprintf(`table ip6 second {
	chain in { type filter hook input priority 0; iifname "%s" ct mark set %d; }
	chain out { type route hook output priority 0; meta mark set ct mark; }
}
`, secondPeer, secondTable))
	table := strconv.Itoa(secondTable)
	_, err3 := feed(n.Provider.Command("ip", "-6", "rule", "add", "fwmark", table, "lookup", table), "")
	return errors.Join(err, err2, err3)
}

// AddressSecond is Address for the second WAN.
func (n *Net) AddressSecond() error {
	return ip(n.Router,
		"addr replace "+RouterWAN2v4+"/24 dev "+second, "addr replace "+RouterWAN2v6+"/64 dev "+second+" nodad",
		fmt.Sprintf("route replace default via %s metric %d", ProviderWAN2v4, 2*metric),
		fmt.Sprintf("route replace default via %s metric %d", ProviderWAN2v6, 2*metric))
}
