// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// include/uapi/linux/netfilter/nfnetlink_conntrack.h.
const (
	ctaProtoInfo = 4
	ctaHelp      = 5
	ctaTimeout   = 7
	ctaInfoTCP   = 1 // CTA_PROTOINFO_TCP
	ctaTCPState  = 1
	ctaHelpName  = 1
)

// tcpStates are enum tcp_conntrack in the words of /proc/net/nf_conntrack.
var tcpStates = []string{"NONE", "SYN_SENT", "SYN_RECV", "ESTABLISHED", "FIN_WAIT",
	"CLOSE_WAIT", "LAST_ACK", "TIME_WAIT", "CLOSE", "SYN_SENT2"}

// Connection reads conntrack's entry for the connection between two ends. They
// may be in any order, and both as they are before or after NAT. The error is
// state.ErrNoConnection when there is none.
func (k *Kernel) Connection(proto string, src, dst netip.AddrPort) (state.Connection, error) {
	op := fmt.Sprintf("look up the connection %s %s %s", proto, src, dst)
	c, err := k.nfnetlink()
	if err != nil {
		return state.Connection{}, refused(op, err)
	}
	defer c.close()
	n, err := c.connection(proto, src, dst)
	if errors.Is(err, unix.ENOENT) {
		n, err = c.connection(proto, dst, src)
	}
	if errors.Is(err, unix.ENOENT) {
		return n, fmt.Errorf("%s: %w", op, state.ErrNoConnection)
	}
	if err != nil {
		return n, refused(op, lacksConntrack(err))
	}
	if n.Status&state.StatusOffload != 0 {
		n.Engine = state.EngineFlowtable
		counts, err := c.flowtableCounts()
		if err != nil {
			return n, refused(op, err)
		}
		n.Counted = n.Counted && counts
	}
	m, err := k.newMap()
	if err != nil {
		return n, refused(op, err)
	}
	m.locate(&n)
	return n, nil
}

// locate computes where the connection comes in and goes out. The reply's
// source is the other end's own address, before NAT.
func (m *portMap) locate(n *state.Connection) {
	in, out := m.place(n.Orig.Src), m.place(n.Reply.Src)
	n.In, n.Out, n.Encap = in.port, out.port, bothEncaps(in.encap, out.encap)
	n.InDevice, n.OutDevice = m.device(n.Orig.Src), m.device(n.Reply.Src)
}

// device is the IP device of the route to an address, lo for one of the
// router's own; "" without a route.
func (m *portMap) device(address string) string {
	link, err := m.route(address)
	if err != nil {
		return ""
	}
	return m.links[link].Name
}

// connection asks for one entry: any of its two tuples finds it.
func (c *conn) connection(proto string, src, dst netip.AddrPort) (n state.Connection, err error) {
	family, ipSrc, ipDst := byte(unix.AF_INET), uint16(ctaIPv4Src), uint16(ctaIPv4Dst)
	if src.Addr().Is6() {
		family, ipSrc, ipDst = unix.AF_INET6, ctaIPv6Src, ctaIPv6Dst
	}
	err = c.ask(request{
		call: "read conntrack", typ: unix.NFNL_SUBSYS_CTNETLINK<<8 | ctGet, header: nfHeader(family, 0),
		attrs: func(w *writer) {
			w.nest(ctaTupleOrig, func() {
				w.nest(ctaTupleIP, func() {
					w.attr(ipSrc, src.Addr().AsSlice())
					w.attr(ipDst, dst.Addr().AsSlice())
				})
				w.nest(ctaTupleProto, func() {
					w.attr(ctaProtoNum, []byte{protocols[proto]})
					w.attr(ctaProtoSrcPort, []byte{byte(src.Port() >> 8), byte(src.Port())})
					w.attr(ctaProtoDstPort, []byte{byte(dst.Port() >> 8), byte(dst.Port())})
				})
			})
		},
	}, func(body []byte) { n = readDetails(body) })
	return n, err
}

func readDetails(body []byte) (n state.Connection) {
	n.Flow, n.Status = readConnection(body)
	for typ, b := range attrsOf(body) {
		switch typ {
		case ctaTimeout:
			n.Timeout = be32(b)
		case ctaHelp:
			for typ, b := range attrs(b) {
				if typ == ctaHelpName {
					n.Helper = text(b)
				}
			}
		case ctaProtoInfo:
			for typ, b := range attrs(b) {
				if typ == ctaInfoTCP {
					n.TCP = readTCPState(b)
				}
			}
		}
	}
	return n
}

func readTCPState(b []byte) string {
	for typ, b := range attrs(b) {
		if typ == ctaTCPState && len(b) == 1 {
			if int(b[0]) < len(tcpStates) {
				return tcpStates[b[0]]
			}
			return fmt.Sprint(b[0])
		}
	}
	return ""
}

// lacksConntrack says what EINVAL and EPROTONOSUPPORT mean here.
func lacksConntrack(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return fmt.Errorf("the kernel can't list connections (nf_conntrack_netlink; on OpenWrt kmod-nf-conntrack-netlink): %w", err)
	}
	return err
}
