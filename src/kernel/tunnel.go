// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// include/uapi/linux/if_tunnel.h (enum ifla_iptun_attr) and ip6_tunnel.h (IP6_TNL_F_*).
const (
	iptunLocal      = 2
	iptunRemote     = 3
	iptunTOS        = 5
	iptunEncapLimit = 6
	iptunFlowInfo   = 7
	iptunFlags      = 8
	iptunProto      = 9
	iptunEncapType  = 15
	iptunExternal   = 19 // IFLA_IPTUN_COLLECT_METADATA
	iptunFwmark     = 20

	tosInherit = 1

	ip6tnlNoLimit          = 1 << 0 // IP6_TNL_F_IGN_ENCAP_LIMIT: encaplimit none
	ip6tnlInheritTclass    = 1 << 1
	ip6tnlInheritFlowlabel = 1 << 2
	ip6tnlInheritDSCP      = 1 << 4 // IP6_TNL_F_RCV_DSCP_COPY
	ip6tnlInheritFwmark    = 1 << 5
)

// addTunnels reads the options of the tunnels that a flowtable may carry, and by
// which link their packets leave. A tunnel that goes meanwhile has none.
func (k *Kernel) addTunnels(links []state.Link) error {
	var c *conn
	for i := range links {
		l := &links[i]
		if l.Kind != "ipip" && l.Kind != "ip6tnl" {
			continue
		}
		if c == nil {
			var err error
			if c, err = dial(unix.NETLINK_ROUTE, k.inject); err != nil {
				return err
			}
			defer c.close()
		}
		if err := c.addTunnel(l); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
	}
	return nil
}

func (c *conn) addTunnel(l *state.Link) error {
	header := make([]byte, ifinfomsgLen)
	binary.NativeEndian.PutUint32(header[4:], uint32(l.Index))
	var t tunnel
	err := c.ask(request{call: "read a tunnel", typ: unix.RTM_GETLINK, header: header},
		func(body []byte) { t = readTunnel(body) })
	if err != nil {
		return err
	}
	l.Tunnel = state.Tunnel{Mode: t.mode(l.Kind), Odd: t.odd(l.Kind), Bound: l.Lower}
	if l.Tunnel.Odd == "" {
		l.Tunnel.Lower, err = c.lowerOf(t.remote)
	}
	return err
}

// lowerOf is the link of the route to an address, 0 without one.
func (c *conn) lowerOf(remote netip.Addr) (index int, err error) {
	header := make([]byte, rtmsgLen)
	header[0], header[1] = unix.AF_INET, 32
	if remote.Is6() {
		header[0], header[1] = unix.AF_INET6, 128
	}
	err = c.ask(request{call: "look up a tunnel's route", typ: unix.RTM_GETROUTE, header: header,
		attrs: func(w *writer) { w.attr(unix.RTA_DST, remote.AsSlice()) },
	}, func(body []byte) {
		for typ, b := range attrs(body[min(rtmsgLen, len(body)):]) {
			if typ == unix.RTA_OIF {
				index = int(u32(b))
			}
		}
	})
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EACCES) {
		return 0, nil // none, or one that forbids
	}
	return index, err
}

// tunnel is IFLA_INFO_DATA of a tunnel.
type tunnel struct {
	local, remote            netip.Addr
	tos, limit, proto        uint8
	flow, flags, fwmark      uint32
	encap, external, mapping bool
}

func readTunnel(body []byte) (t tunnel) {
	for typ, b := range attrs(body[min(ifinfomsgLen, len(body)):]) {
		if typ != unix.IFLA_LINKINFO {
			continue
		}
		for typ, b := range attrs(b) {
			if typ == unix.IFLA_INFO_DATA {
				t.read(b)
			}
		}
	}
	return t
}

func (t *tunnel) read(b []byte) {
	for typ, b := range attrs(b) {
		switch typ {
		case iptunLocal:
			t.local, _ = netip.AddrFromSlice(b)
		case iptunRemote:
			t.remote, _ = netip.AddrFromSlice(b)
		case iptunTOS:
			t.tos = first(b)
		case iptunEncapLimit:
			t.limit = first(b)
		case iptunFlowInfo:
			t.flow = be32(b)
		case iptunFlags:
			t.flags = u32(b)
		case iptunProto:
			t.proto = first(b)
		case iptunEncapType:
			t.encap = u16(b) != 0
		case iptunExternal:
			t.external = true
		case iptunFwmark:
			t.fwmark = u32(b)
		default: // OpenWrt's mapping rules of MAP-E: the other end depends on the packet
			t.mapping = t.mapping || typ > iptunFwmark && len(b) > 0
		}
	}
}

func first(b []byte) uint8 {
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

func (t *tunnel) mode(kind string) string {
	switch {
	case kind == "ipip":
		return "ipip"
	case t.proto == unix.IPPROTO_IPIP:
		return "ipip6"
	case t.proto == unix.IPPROTO_IPV6:
		return "ip6ip6"
	}
	return "any"
}

// odd is state.Tunnel.Odd.
func (t *tunnel) odd(kind string) string {
	switch {
	case t.external:
		return "external"
	case t.encap:
		return "encap"
	case t.mapping:
		return "fmrs"
	case t.fwmark != 0:
		return fmt.Sprintf("fwmark 0x%x", t.fwmark)
	case !t.remote.IsValid() || t.remote.IsUnspecified():
		return "remote any"
	case !t.local.IsValid() || t.local.IsUnspecified():
		return "local any"
	case kind == "ipip" && t.tos > tosInherit:
		return fmt.Sprintf("tos 0x%02x", t.tos)
	case kind == "ipip":
		return ""
	}
	return t.odd6()
}

// odd6 are the options that only ip6tnl has. The traffic class of IPIP's tos is
// inside of flow here.
func (t *tunnel) odd6() string {
	switch {
	case t.flags&ip6tnlNoLimit == 0:
		return fmt.Sprintf("encaplimit %d", t.limit)
	case t.flow != 0:
		return fmt.Sprintf("tclass and flowlabel 0x%07x", t.flow)
	}
	inherit := ""
	for _, x := range []struct {
		flag uint32
		name string
	}{{ip6tnlInheritTclass, "tclass"}, {ip6tnlInheritFlowlabel, "flowlabel"}, {ip6tnlInheritDSCP, "dscp"}, {ip6tnlInheritFwmark, "fwmark"}} {
		if t.flags&x.flag != 0 {
			inherit = cmp.Or(inherit, x.name+" inherit")
		}
	}
	return inherit
}
