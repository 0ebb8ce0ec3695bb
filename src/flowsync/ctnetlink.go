// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"fastpath/src/packet"
)

const ctnetlink = unix.NFNL_SUBSYS_CTNETLINK << 8

// conntrack is a socket for ctnetlink: dumps, and orders in batches.
//
// The messages are our own because ti-mo/conntrack keeps a dump whole (64k
// connections: 142 MB of garbage, 2.2 million allocations, every 10 s), and
// its update always writes the TCP state.
type conntrack struct{ *socket }

func dialConntrack() (conntrack, error) {
	s, err := dial(unix.NETLINK_NETFILTER)
	return conntrack{s}, err
}

func nfHeader(family uint8) []byte { return []byte{family, unix.NFNETLINK_V0, 0, 0} }

// beginMarked asks for the connections with the bit, in one pass over the
// kernel's table; partMarked then reads them.
func (ct conntrack) beginMarked(mark uint32) error {
	err := ct.begin(ctnetlink|ctGet, nfHeader(unix.AF_UNSPEC), func(w *writer) {
		w.be32(ctaMark, mark)
		w.be32(ctaMarkMask, mark)
	})
	if err != nil {
		return fmt.Errorf("read conntrack: %w", err)
	}
	return nil
}

// partMarked hands some hundred connections to each; more is false after the
// last.
func (ct conntrack) partMarked(mark uint32, each func(*connection)) (more bool, err error) {
	more, err = ct.part(func(_ uint16, body []byte) {
		if c, ok := readConnection(body); ok && c.mark&mark != 0 {
			each(&c)
		}
	})
	if err != nil {
		return false, fmt.Errorf("read conntrack: %w", err)
	}
	return more, nil
}

// update changes the n entries with the original tuples that tuple gives; fill
// adds what is to change. failed gets the errno of each that the kernel
// refused; ENOENT: the connection is gone.
func (ct conntrack) update(n int, tuple func(i int) *packet.Tuple, fill func(w *writer, i int), failed func(i int, err error)) error {
	err := ct.batch(n, func(w *writer, i int, seq uint32) {
		openTuple(w, ctNew, unix.NLM_F_ACK, seq, tuple(i))
		fill(w, i)
		w.close()
	}, func(i int, _ []byte, err error) {
		if err != nil {
			failed(i, err)
		}
	})
	if err != nil {
		return fmt.Errorf("update conntrack: %w", err)
	}
	return nil
}

// get asks for whole entries: an event tells only what has changed. each gets
// those that are still there.
func (ct conntrack) get(tuples []packet.Tuple, each func(*connection)) error {
	err := ct.batch(len(tuples), func(w *writer, i int, seq uint32) {
		openTuple(w, ctGet, 0, seq, &tuples[i])
		w.close()
	}, func(_ int, body []byte, err error) {
		if c, ok := readConnection(body); ok && err == nil {
			each(&c)
		}
	})
	if err != nil {
		return fmt.Errorf("read conntrack: %w", err)
	}
	return nil
}

// openTuple begins a message about the entry with an original tuple.
func openTuple(w *writer, typ, flags uint16, seq uint32, t *packet.Tuple) {
	family := uint8(unix.AF_INET6)
	if t.Src.Addr().Is4() {
		family = unix.AF_INET
	}
	w.open(ctnetlink|typ, unix.NLM_F_REQUEST|flags, seq, nfHeader(family)...)
	w.nest(ctaTupleOrig, func() { writeTuple(w, t) })
}

func writeTuple(w *writer, t *packet.Tuple) {
	src, dst := uint16(ctaIPv4Src), uint16(ctaIPv4Dst)
	if !t.Src.Addr().Is4() {
		src, dst = ctaIPv6Src, ctaIPv6Dst
	}
	w.nest(ctaTupleIP, func() {
		w.attr(src, t.Src.Addr().AsSlice()...)
		w.attr(dst, t.Dst.Addr().AsSlice()...)
	})
	w.nest(ctaTupleProto, func() {
		w.attr(ctaProtoNum, t.Proto)
		w.be16(ctaProtoSrcPort, t.Src.Port())
		w.be16(ctaProtoDstPort, t.Dst.Port())
	})
}

// beLiberal makes conntrack accept any TCP window, in both directions: it
// misses the packets that engines carry. Nothing else of the entry changes,
// its state least of all (nlattr_to_tcp in nf_conntrack_proto_tcp.c).
func beLiberal(w *writer) {
	w.nest(ctaProtoInfo, func() {
		w.nest(ctaProtoInfoTCP, func() {
			w.attr(ctaTCPFlagsOrig, tcpLiberal, tcpLiberal)
			w.attr(ctaTCPFlagsReply, tcpLiberal, tcpLiberal)
		})
	})
}

// beAssured makes early_drop spare a UDP connection when conntrack's table is
// full, as if conntrack had seen the packets that engines carry. CONFIRMED,
// EXPECTED and DYING have to be what they are, and SEEN_REPLY and ASSURED never
// go again (nf_ct_change_status_common in nf_conntrack_core.c).
func beAssured(w *writer, status uint32) { w.be32(ctaStatus, status|statusAssured) }

// clearMark takes the bits of mark out of the entry's mark.
func clearMark(w *writer, mark uint32) {
	w.be32(ctaMark, 0)
	w.be32(ctaMarkMask, mark)
}

// unmark clears the bit in all connections that have it.
func (ct conntrack) unmark(mark uint32) error {
	var marked []packet.Tuple
	if err := ct.beginMarked(mark); err != nil {
		return err
	}
	for more := true; more; {
		var err error
		if more, err = ct.partMarked(mark, func(c *connection) { marked = append(marked, c.orig) }); err != nil {
			return err
		}
	}
	var first error
	err := ct.update(len(marked), func(i int) *packet.Tuple { return &marked[i] },
		func(w *writer, _ int) { clearMark(w, mark) },
		func(_ int, err error) {
			if first == nil && !errors.Is(err, unix.ENOENT) {
				first = fmt.Errorf("update conntrack: %w", err)
			}
		})
	return errors.Join(err, first)
}

// Unmark clears the bit in all connections: cleanup after a crash.
func Unmark(mark uint32) error {
	ct, err := dialConntrack()
	if err != nil {
		return err
	}
	defer ct.close()
	return ct.unmark(mark)
}
