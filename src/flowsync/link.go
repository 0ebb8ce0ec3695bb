// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"golang.org/x/sys/unix"

	"fastpath/src/packet"
)

// include/uapi/linux/if_link.h, if_tunnel.h, if_bridge.h, ipv6.h.
const (
	ifinfomsgLen = 16

	iptunLink       = 1
	iptunLocal      = 2
	iptunRemote     = 3
	iptunTTL        = 4
	iptunFlowInfo   = 7
	iptunFlags      = 8
	iptunProto      = 9
	iptunEncapType  = 15
	iptunCollect    = 19
	iptunFwmark     = 20
	devconfMTU6     = 2 // DEVCONF_MTU6, an index into IFLA_INET6_CONF
	stateForwarding = 3 // BR_STATE_FORWARDING

	bridgeVLANInfo    = 2 // IFLA_BRIDGE_VLAN_INFO
	vlanInfoPVID      = 1 << 1
	vlanInfoUntagged  = 1 << 2
	vlanInfoRangeFrom = 1 << 3
	vlanInfoRangeTo   = 1 << 4
	filterVLANs       = 1 << 2 // RTEXT_FILTER_BRVLAN_COMPRESSED
	lowestVLAN        = 1
	highestVLAN       = 4094
)

// readLink reads a message of RTM_GETLINK.
func readLink(body []byte) (l link, ok bool) {
	if len(body) < ifinfomsgLen {
		return l, false
	}
	l.index = int(u32(body[4:]))
	flags := u32(body[8:])
	l.up, l.carrier = flags&unix.IFF_UP != 0, flags&unix.IFF_LOWER_UP != 0
	elsewhere := false
	for typ, b := range attrs(body[ifinfomsgLen:]) {
		switch typ {
		case unix.IFLA_IFNAME:
			l.name = text(b)
		case unix.IFLA_ADDRESS:
			l.mac = mac(b)
		case unix.IFLA_MTU:
			l.mtu = int(u32(b))
		case unix.IFLA_LINK:
			l.lower = int(u32(b))
		case unix.IFLA_LINK_NETNSID:
			elsewhere = true
		case unix.IFLA_MASTER:
			l.master = int(u32(b))
		case unix.IFLA_LINKINFO:
			l.readInfo(b)
		case unix.IFLA_AF_SPEC:
			l.readFamilies(b)
		}
	}
	if elsewhere {
		l.lower = 0
	}
	return l, true
}

func (l *link) readInfo(b []byte) {
	var data []byte
	for typ, b := range attrs(b) {
		switch typ {
		case unix.IFLA_INFO_KIND:
			l.kind = text(b)
		case unix.IFLA_INFO_DATA:
			data = b
		case unix.IFLA_INFO_SLAVE_KIND:
			l.port.ofBridge = text(b) == "bridge"
		case unix.IFLA_INFO_SLAVE_DATA:
			l.readPort(b)
		}
	}
	switch l.kind {
	case "vlan":
		l.readVLAN(data)
	case "bridge":
		l.readBridge(data)
	case "ip6tnl":
		l.readTunnel(data)
	}
}

// readPort reads what a bridge says of its port; its kind comes before.
func (l *link) readPort(b []byte) {
	if !l.port.ofBridge {
		return
	}
	for typ, b := range attrs(b) {
		switch typ {
		case unix.IFLA_BRPORT_STATE:
			l.port.forwarding = u8(b) == stateForwarding
		case unix.IFLA_BRPORT_LOCKED:
			l.port.locked = u8(b) != 0
		}
	}
}

func (l *link) readVLAN(b []byte) {
	l.vlan.protocol = packet.TypeVLAN
	for typ, b := range attrs(b) {
		switch typ {
		case unix.IFLA_VLAN_ID:
			l.vlan.id = u16(b)
		case unix.IFLA_VLAN_PROTOCOL:
			l.vlan.protocol = be16(b)
		case unix.IFLA_VLAN_EGRESS_QOS:
			for _, b := range attrs(b) { // struct ifla_vlan_qos_mapping: from, to
				l.vlan.priorities = l.vlan.priorities || len(b) >= 8 && u32(b[4:]) != 0
			}
		}
	}
}

func (l *link) readBridge(b []byte) {
	l.bridge.protocol = packet.TypeVLAN
	for typ, b := range attrs(b) {
		switch typ {
		case unix.IFLA_BR_VLAN_FILTERING:
			l.bridge.filtering = u8(b) != 0
		case unix.IFLA_BR_VLAN_PROTOCOL:
			l.bridge.protocol = be16(b)
		}
	}
}

func (l *link) readTunnel(b []byte) {
	t := &l.tunnel
	for typ, b := range attrs(b) {
		switch typ {
		case iptunLink:
			t.lower = int(u32(b))
		case iptunLocal:
			t.local = address(b)
		case iptunRemote:
			t.remote = address(b)
		case iptunTTL:
			t.ttl = u8(b)
		case iptunFlowInfo:
			t.odd = t.odd || be32(b) != 0
		case iptunFlags:
			t.flags = u32(b)
		case iptunProto:
			t.proto = u8(b)
		case iptunEncapType:
			t.odd = t.odd || u16(b) != 0
		case iptunCollect:
			t.odd = true
		case iptunFwmark:
			t.odd = t.odd || u32(b) != 0
		default: // OpenWrt's mapping rules of MAP-E
			t.odd = t.odd || typ > iptunFwmark && len(b) > 0
		}
	}
}

// readFamilies reads IPv6's own MTU.
func (l *link) readFamilies(b []byte) {
	for family, b := range attrs(b) {
		if family != unix.AF_INET6 {
			continue
		}
		for typ, b := range attrs(b) {
			if typ == unix.IFLA_INET6_CONF && len(b) >= 4*(devconfMTU6+1) {
				l.mtu6 = int(u32(b[4*devconfMTU6:]))
			}
		}
	}
}

// readVLANs hands each VLAN of a bridge or a port of one to each.
func readVLANs(body []byte, each func(vlanKey, vlan)) {
	if len(body) < ifinfomsgLen {
		return
	}
	dev := int(u32(body[4:]))
	from := uint16(0)
	for typ, b := range attrs(body[ifinfomsgLen:]) {
		if typ != unix.IFLA_AF_SPEC {
			continue
		}
		for typ, b := range attrs(b) {
			if typ != bridgeVLANInfo || len(b) < 4 {
				continue
			}
			flags, id := u16(b), u16(b[2:])
			if flags&vlanInfoRangeFrom != 0 {
				from = id
				continue
			}
			if flags&vlanInfoRangeTo == 0 {
				from = id
			}
			for ; from >= lowestVLAN && from <= id && id <= highestVLAN; from++ {
				each(vlanKey{dev, from}, vlan{pvid: flags&vlanInfoPVID != 0, untagged: flags&vlanInfoUntagged != 0})
			}
		}
	}
}
