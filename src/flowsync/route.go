// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// include/uapi/linux/rtnetlink.h.
const (
	rtmsgLen   = 12
	rtaIPProto = 27
	rtaSport   = 28
	rtaDport   = 29
)

// query is a question for the kernel's route.
type query struct {
	dst, src     netip.Addr
	iif          int // 0: as for a packet of the router's own
	oif          int // 0: any
	mark         uint32
	proto        uint8 // 0, and no ports: no rule looks at them
	sport, dport uint16
}

// route is the kernel's answer.
type route struct {
	dev     int
	gateway netip.Addr // invalid: the destination is on the link
	mtu     int        // 0: the device's
	refusal string     // why an engine can't follow it; "": it can
}

// routes asks for all of qs in few system calls.
func (r *reader) routes(qs []query, answer func(q query, a route)) error {
	err := r.rt.batch(len(qs), func(w *writer, i int, seq uint32) { qs[i].write(w, seq) },
		func(i int, body []byte, err error) {
			q := qs[i]
			if err != nil {
				answer(q, route{refusal: fmt.Sprintf("the kernel has no route to %v: %v", q.dst, err)})
				return
			}
			answer(q, readRoute(body, q.dst))
		})
	if err != nil {
		return fmt.Errorf("look up routes: %w", err)
	}
	return nil
}

// write asks for the entry of the routing table that answers, not for the
// route made of it: the entry tells of several next hops and of encapsulation.
func (q query) write(w *writer, seq uint32) {
	var header [rtmsgLen]byte
	header[0], header[1] = unix.AF_INET6, 128
	if q.dst.Is4() {
		header[0], header[1] = unix.AF_INET, 32
	}
	if q.src.IsValid() {
		header[2] = header[1]
	}
	w.open(unix.RTM_GETROUTE, unix.NLM_F_REQUEST, seq, header[:]...)
	binary.NativeEndian.PutUint32(w.b[len(w.b)-4:], unix.RTM_F_FIB_MATCH)
	w.attr(unix.RTA_DST, q.dst.AsSlice()...)
	if q.src.IsValid() {
		w.attr(unix.RTA_SRC, q.src.AsSlice()...)
	}
	for _, a := range [...]struct {
		typ   uint16
		value uint32
	}{{unix.RTA_IIF, uint32(q.iif)}, {unix.RTA_OIF, uint32(q.oif)}, {unix.RTA_MARK, q.mark}} {
		if a.value != 0 {
			w.u32(a.typ, a.value)
		}
	}
	if q.proto != 0 {
		w.attr(rtaIPProto, q.proto)
		w.be16(rtaSport, q.sport)
		w.be16(rtaDport, q.dport)
	}
	w.close()
}

// readRoute reads the entry that was found for dst.
func readRoute(body []byte, dst netip.Addr) (a route) {
	if len(body) < rtmsgLen {
		return route{refusal: fmt.Sprintf("the kernel has no route to %v", dst)}
	}
	typ, several := body[7], false
	for typ, b := range attrs(body[rtmsgLen:]) {
		switch typ {
		case unix.RTA_OIF:
			a.dev = int(u32(b))
		case unix.RTA_GATEWAY:
			a.gateway = address(b)
		case unix.RTA_VIA: // a family and its address
			if len(b) > 2 {
				a.gateway = address(b[2:])
			}
		case unix.RTA_METRICS:
			for typ, b := range attrs(b) {
				if typ == unix.RTAX_MTU {
					a.mtu = int(u32(b))
				}
			}
		case unix.RTA_MULTIPATH:
			several = true
		case unix.RTA_ENCAP, unix.RTA_ENCAP_TYPE:
			a.refusal = fmt.Sprintf("the route to %v encapsulates", dst)
		}
	}
	switch {
	case typ == unix.RTN_LOCAL:
		a.refusal = fmt.Sprintf("%v is the router's own address", dst)
	case typ != unix.RTN_UNICAST:
		a.refusal = fmt.Sprintf("the route to %v is not a unicast one", dst)
	case several:
		// Which of them a packet takes is the kernel's choice: it may hash the
		// flow label, and change its mind when one of them dies.
		a.refusal = fmt.Sprintf("the route to %v has several next hops", dst)
	case a.dev == 0 && a.refusal == "":
		a.refusal = fmt.Sprintf("the route to %v names no device", dst)
	}
	return a
}

// same says whether packets go the same way by both.
func (a route) same(b route) bool {
	return a.refusal == "" && b.refusal == "" && a.dev == b.dev && a.gateway == b.gateway && a.mtu == b.mtu
}
