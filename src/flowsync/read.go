// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// include/uapi/linux/fib_rules.h, xfrm.h, neighbour.h, if_addr.h.
const (
	fibRuleHdrLen = 12
	fraFwmark     = 10
	fraIPProto    = 22
	fraSportRange = 23
	fraDportRange = 24
	fraDscp       = 25

	ifaddrmsgLen = 8
	ndmsgLen     = 12

	xfrmGetPolicy = 0x15
	xfrmPolicyID  = 64  // bytes of struct xfrm_userpolicy_id
	xfrmDir       = 160 // in struct xfrm_userpolicy_info
	xfrmLastDir   = 2   // XFRM_POLICY_FWD; above it are the policies of sockets
	xfrmGroup     = 4   // XFRMNLGRP_POLICY
	procPPPoE     = "/proc/thread-self/net/pppoe"
)

// reader reads worlds.
type reader struct {
	rt    *socket
	xfrm  *socket // nil: the kernel has no IPsec
	pppoe string
}

func newReader() (*reader, error) {
	rt, err := dial(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	xfrm, err := dial(unix.NETLINK_XFRM)
	if err != nil && !errors.Is(err, unix.EPROTONOSUPPORT) {
		rt.close()
		return nil, err
	}
	return &reader{rt: rt, xfrm: xfrm, pppoe: procPPPoE}, nil
}

func (r *reader) close() {
	r.rt.close()
	if r.xfrm != nil {
		r.xfrm.close()
	}
}

// world reads everything anew.
func (r *reader) world() (*world, error) {
	w := newWorld()
	for _, read := range []func(*world) error{r.links, r.vlans, r.addresses, r.rules, r.neighbours, r.ipsec} {
		if err := read(w); err != nil {
			return nil, err
		}
	}
	w.sessions = readSessions(r.pppoe)
	return w, nil
}

func nothing(*writer) {}

func (r *reader) dump(what string, typ uint16, header []byte, fill func(*writer), restart func(), each func([]byte)) error {
	if err := r.rt.dump(typ, header, fill, restart, func(_ uint16, body []byte) { each(body) }); err != nil {
		return fmt.Errorf("read the %s: %w", what, err)
	}
	return nil
}

func (r *reader) links(w *world) error {
	return r.dump("links", unix.RTM_GETLINK, make([]byte, ifinfomsgLen), nothing,
		func() { clear(w.links) },
		func(body []byte) {
			if l, ok := readLink(body); ok {
				w.links[l.index] = l
			}
		})
}

// vlans reads the VLANs of bridges that filter.
func (r *reader) vlans(w *world) error {
	filtering := false
	for _, l := range w.links {
		filtering = filtering || l.bridge.filtering
	}
	if !filtering {
		return nil
	}
	header := make([]byte, ifinfomsgLen)
	header[0] = unix.AF_BRIDGE
	return r.dump("VLANs of bridges", unix.RTM_GETLINK, header,
		func(m *writer) { m.u32(unix.IFLA_EXT_MASK, filterVLANs) },
		func() { clear(w.vlans) },
		func(body []byte) { readVLANs(body, func(k vlanKey, v vlan) { w.vlans[k] = v }) })
}

func (r *reader) addresses(w *world) error {
	return r.dump("addresses", unix.RTM_GETADDR, make([]byte, ifaddrmsgLen), nothing,
		func() { clear(w.addresses) },
		func(body []byte) {
			if len(body) < ifaddrmsgLen {
				return
			}
			for typ, b := range attrs(body[ifaddrmsgLen:]) {
				// IPv4's IFA_ADDRESS is the peer's on a point-to-point link; IPv6 has
				// IFA_LOCAL only there.
				if typ == unix.IFA_LOCAL || typ == unix.IFA_ADDRESS && body[0] == unix.AF_INET6 {
					w.addresses[address(b)] = true
				}
			}
		})
}

func (r *reader) rules(w *world) error {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		header := make([]byte, fibRuleHdrLen)
		header[0] = family
		marks := len(w.rules.marks)
		err := r.dump("routing rules", unix.RTM_GETRULE, header, nothing,
			func() { w.rules.marks = w.rules.marks[:marks] }, w.rules.read)
		// A kernel without the family, or without rules, has none.
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
	}
	slices.Sort(w.rules.marks)
	w.rules.marks = slices.Compact(w.rules.marks)
	return nil
}

// read adds one rule.
func (r *rules) read(body []byte) {
	if len(body) < fibRuleHdrLen {
		return
	}
	r.tos = r.tos || body[3] != 0
	for typ, b := range attrs(body[fibRuleHdrLen:]) {
		switch {
		case typ == fraFwmark && u32(b) != 0:
			r.marks = append(r.marks, u32(b))
		case typ == fraIPProto || typ == fraSportRange || typ == fraDportRange:
			r.ports = true
		case typ >= fraDscp: // DSCP, flow labels, masks of ports
			r.tos = true
		}
	}
}

// neighbours reads those of IPv4 and IPv6 and the bridges' forwarding databases.
func (r *reader) neighbours(w *world) error {
	err := r.dump("neighbours", unix.RTM_GETNEIGH, make([]byte, ndmsgLen), nothing,
		func() { clear(w.neighbours) },
		func(body []byte) { w.noteNeighbour(body, false) })
	if err != nil {
		return err
	}
	header := make([]byte, ndmsgLen)
	header[0] = unix.AF_BRIDGE
	return r.dump("forwarding databases", unix.RTM_GETNEIGH, header, nothing,
		func() { clear(w.fdb) },
		func(body []byte) { w.noteNeighbour(body, false) })
}

func (r *reader) ipsec(w *world) error {
	if r.xfrm == nil {
		return nil
	}
	err := r.xfrm.dump(xfrmGetPolicy, make([]byte, xfrmPolicyID), nothing, func() { w.ipsec = false },
		func(_ uint16, body []byte) {
			w.ipsec = w.ipsec || len(body) > xfrmDir && body[xfrmDir] <= xfrmLastDir
		})
	if err != nil {
		return fmt.Errorf("read the IPsec policies: %w", err)
	}
	return nil
}

// readSessions reads the kernel's PPPoE sessions. A kernel without PPPoE has
// no such file.
func readSessions(path string) []state.Session {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	return state.ParseSessions(f)
}
