// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"

	"fastpath/src/state"
)

// tunnels are the kinds of link whose packets carry no Ethernet header. Of a
// flow through one, only the direction that enters by Ethernet would be taken
// by the flowtable, and on stock kernels 7.2 and 7.3 an IP tunnel over PPPoE is
// then a black hole.
var tunnels = map[string]bool{
	"amneziawg": true, "gre": true, "gtp": true, "ip6gre": true, "ip6tnl": true, "ipip": true,
	"ovpn": true, "rmnet": true, "sit": true, "vti": true, "vti6": true, "wireguard": true,
	"wwan": true, "xfrm": true,
}

// silent are the kinds of link that never hand a received packet to a hook of theirs.
var silent = map[string]bool{"dummy": true, "ifb": true, "nlmon": true, "vrf": true}

// isTunnel: a tunnel by its kind, or a tun device or modem without a MAC (a tap,
// or a modem that plays Ethernet, has one).
func isTunnel(l *state.Link) bool {
	return tunnels[l.Kind] || (l.Kind == "tun" || l.DevType == "wwan") && l.MAC == [6]byte{}
}

func isDSA(l *state.Link) bool { return l.Kind == "dsa" || l.DevType == "dsa" }

// unfit is why a link at the lower end of a stacking can't carry a flowtable's
// hook usefully, "" if it can.
func unfit(l *state.Link) string {
	switch {
	case isTunnel(l):
		return "a tunnel (" + cmp.Or(l.Kind, l.DevType) + "): its packets have no Ethernet header, one direction of a flow would stay behind"
	case silent[l.Kind]:
		return "a " + l.Kind + " device never receives packets by itself"
	case l.Kind == "" && l.Name == "lo":
		return "loopback: nothing is forwarded through it"
	}
	return ""
}

// noList is why a link doesn't deliver NAPI lists of its own, "" if it does:
// a NIC's driver does; everything else loses its list when GRO is off, or never
// had one (facts: DSA and Wi-Fi come with a bus device behind them, too).
func noList(l *state.Link) string {
	switch {
	case isDSA(l):
		return "a DSA port loses its NAPI list when GRO is off"
	case l.DevType == "wlan":
		return "Wi-Fi has no NAPI list of its own"
	case l.Kind == "veth":
		return "veth loses its NAPI list when GRO is off"
	case l.Kind != "":
		return "a virtual device (" + l.Kind + ") has no NAPI list of its own"
	case l.DevType != "":
		return "a device of type " + l.DevType + " has no NAPI list of its own"
	case !l.Bus:
		return "no hardware stands behind it, so no NAPI list"
	}
	return ""
}
