// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"net/netip"

	"fastpath/src/packet"
)

// include/uapi/linux/netfilter/nfnetlink_conntrack.h.
const (
	ctNew    = 0 // IPCTNL_MSG_CT_NEW
	ctGet    = 1 // IPCTNL_MSG_CT_GET
	ctDelete = 2 // IPCTNL_MSG_CT_DELETE

	ctaTupleOrig  = 1
	ctaTupleReply = 2
	ctaStatus     = 3
	ctaProtoInfo  = 4
	ctaHelp       = 5
	ctaTimeout    = 7
	ctaMark       = 8
	ctaID         = 12
	ctaZone       = 18
	ctaMarkMask   = 21

	nfgenmsgLen = 4

	ctaTupleIP    = 1
	ctaTupleProto = 2
	ctaTupleZone  = 3

	ctaIPv4Src = 1
	ctaIPv4Dst = 2
	ctaIPv6Src = 3
	ctaIPv6Dst = 4

	ctaProtoNum     = 1
	ctaProtoSrcPort = 2
	ctaProtoDstPort = 3

	ctaProtoInfoTCP  = 1
	ctaTCPState      = 1
	ctaTCPFlagsOrig  = 4
	ctaTCPFlagsReply = 5
)

// include/uapi/linux/netfilter/nf_conntrack_common.h and nf_conntrack_tcp.h.
const (
	statusSeenReply = 1 << 1
	statusAssured   = 1 << 2
	statusConfirmed = 1 << 3
	statusSeqAdjust = 1 << 6
	statusDying     = 1 << 9
	statusClash     = 1 << 12 // IPS_NAT_CLASH
	statusOffload   = 1 << 14

	tcpEstablished = 3
	tcpLiberal     = 0x08 // IP_CT_TCP_FLAG_BE_LIBERAL
)

// connection is what conntrack says of a TCP or UDP connection. Each tuple is
// what packets of its direction have when they come in.
type connection struct {
	orig, reply packet.Tuple
	id          uint32 // the entry's own: the same tuples come again with another
	mark        uint32
	status      uint32
	timeout     uint32 // seconds left
	tcpState    uint8  // 0: the message doesn't tell
	liberal     bool   // about the TCP window, both directions
	zone        bool   // it is in a conntrack zone
	helper      bool
}

// destination is where the originator's packets go after DNAT.
func (c *connection) destination() netip.AddrPort { return c.reply.Src }

// turned is the tuple with which packets leave whose answers come in as t.
func turned(t packet.Tuple) packet.Tuple {
	return packet.Tuple{Proto: t.Proto, Src: t.Dst, Dst: t.Src}
}

// readConnection reads a message of ctnetlink; ok: it is TCP or UDP.
func readConnection(body []byte) (c connection, ok bool) {
	if len(body) < nfgenmsgLen {
		return c, false
	}
	for typ, b := range attrs(body[nfgenmsgLen:]) {
		switch typ {
		case ctaTupleOrig:
			c.zone = readTuple(b, &c.orig) || c.zone
		case ctaTupleReply:
			c.zone = readTuple(b, &c.reply) || c.zone
		case ctaStatus:
			c.status = be32(b)
		case ctaMark:
			c.mark = be32(b)
		case ctaTimeout:
			c.timeout = be32(b)
		case ctaID:
			c.id = be32(b)
		case ctaZone:
			c.zone = true
		case ctaHelp:
			c.helper = true
		case ctaProtoInfo:
			c.readProtoInfo(b)
		}
	}
	p := c.orig.Proto
	return c, (p == packet.TCP || p == packet.UDP) && c.reply.Proto == p && c.orig.Src.IsValid() && c.reply.Src.IsValid()
}

func readTuple(b []byte, t *packet.Tuple) (zone bool) {
	var src, dst netip.Addr
	var sport, dport uint16
	for typ, b := range attrs(b) {
		switch typ {
		case ctaTupleIP:
			for typ, b := range attrs(b) {
				switch typ {
				case ctaIPv4Src, ctaIPv6Src:
					src = address(b)
				case ctaIPv4Dst, ctaIPv6Dst:
					dst = address(b)
				}
			}
		case ctaTupleProto:
			for typ, b := range attrs(b) {
				switch typ {
				case ctaProtoNum:
					t.Proto = u8(b)
				case ctaProtoSrcPort:
					sport = be16(b)
				case ctaProtoDstPort:
					dport = be16(b)
				}
			}
		case ctaTupleZone:
			zone = true
		}
	}
	t.Src, t.Dst = netip.AddrPortFrom(src, sport), netip.AddrPortFrom(dst, dport)
	return zone
}

func (c *connection) readProtoInfo(b []byte) {
	liberal := 0
	for typ, b := range attrs(b) {
		if typ != ctaProtoInfoTCP {
			continue
		}
		for typ, b := range attrs(b) {
			switch typ {
			case ctaTCPState:
				c.tcpState = u8(b)
			case ctaTCPFlagsOrig, ctaTCPFlagsReply:
				if u8(b)&tcpLiberal != 0 {
					liberal++
				}
			}
		}
	}
	c.liberal = liberal == 2
}
