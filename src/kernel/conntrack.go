// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// include/uapi/linux/netfilter/nfnetlink_conntrack.h and nf_conntrack_common.h.
const (
	ctGet           = 1 // IPCTNL_MSG_CT_GET
	ctaTupleOrig    = 1
	ctaTupleReply   = 2
	ctaStatus       = 3
	ctaMark         = 8
	ctaCounterOrig  = 9
	ctaCounterReply = 10
	ctaStatusMask   = 26
	ctaTupleIP      = 1
	ctaTupleProto   = 2
	ctaIPv4Src      = 1
	ctaIPv4Dst      = 2
	ctaIPv6Src      = 3
	ctaIPv6Dst      = 4
	ctaProtoNum     = 1
	ctaProtoSrcPort = 2
	ctaProtoDstPort = 3
	ctaPackets      = 1
	ctaBytes        = 2
)

// connections hands the connections that have a bit of status to each.
func (c *conn) connections(status uint32, restart func(), each func(state.Flow)) error {
	err := steady(func() error {
		restart()
		return c.ask(request{
			call: "read conntrack", typ: unix.NFNL_SUBSYS_CTNETLINK<<8 | ctGet, dump: true,
			header: nfHeader(unix.AF_UNSPEC, 0),
			attrs: func(w *writer) { // kernels before 6.0 ignore it
				w.be32(ctaStatus, status)
				w.be32(ctaStatusMask, status)
			},
		}, func(body []byte) {
			if f, has := readConnection(body); has&status != 0 {
				each(f)
			}
		})
	})
	return lacksConntrack(err)
}

func readConnection(body []byte) (f state.Flow, status uint32) {
	f.Family = "ipv4"
	if len(body) > 0 && body[0] == unix.AF_INET6 {
		f.Family = "ipv6"
	}
	for typ, b := range attrsOf(body) {
		switch typ {
		case ctaStatus:
			status = be32(b)
		case ctaMark:
			f.Mark = be32(b)
		case ctaTupleOrig:
			f.Proto = readTuple(b, &f.Orig)
		case ctaTupleReply:
			readTuple(b, &f.Reply)
		case ctaCounterOrig:
			f.Counted = true // the entry has counters: nf_conntrack_acct is on
			f.Orig.Packets, f.Orig.Bytes = readCounts(b)
		case ctaCounterReply:
			f.Reply.Packets, f.Reply.Bytes = readCounts(b)
		}
	}
	return f, status
}

func readTuple(b []byte, t *state.Tuple) (proto string) {
	for typ, b := range attrs(b) {
		switch typ {
		case ctaTupleIP:
			for typ, b := range attrs(b) {
				addr, _ := netip.AddrFromSlice(b)
				switch typ {
				case ctaIPv4Src, ctaIPv6Src:
					t.Src = addr.String()
				case ctaIPv4Dst, ctaIPv6Dst:
					t.Dst = addr.String()
				}
			}
		case ctaTupleProto:
			for typ, b := range attrs(b) {
				switch typ {
				case ctaProtoNum:
					proto = protocolName(b)
				case ctaProtoSrcPort:
					t.SrcPort = be16(b)
				case ctaProtoDstPort:
					t.DstPort = be16(b)
				}
			}
		}
	}
	return proto
}

func protocolName(b []byte) string {
	if len(b) != 1 {
		return ""
	}
	for name, number := range protocols {
		if number == b[0] {
			return name
		}
	}
	return fmt.Sprint(b[0])
}

func readCounts(b []byte) (packets, bytes uint64) {
	for typ, b := range attrs(b) {
		switch typ {
		case ctaPackets:
			packets = be64(b)
		case ctaBytes:
			bytes = be64(b)
		}
	}
	return packets, bytes
}
