// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"net/netip"
	"slices"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// include/uapi/linux/netfilter/nfnetlink_conntrack.h.
const (
	ctDelete = 2 // IPCTNL_MSG_CT_DELETE
	ctaID    = 12
	ctaZone  = 18
	// statusSourceNAT is IPS_SRC_NAT.
	statusSourceNAT = 1 << 4
)

// lostFor is how long connections of a lost address are looked for: until the
// firewall has got its new rules (fw4 is reloaded by hotplug, seconds later), new
// ones are made from the old address.
const lostFor = 30 * time.Second

// lostAgain are the times of looks for them, as rules that aren't fw4's change
// without an event.
var lostAgain = []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, lostFor - time.Second}

// lost are addresses that the router had and has no more, while there are
// connections that it still sends from them: masquerade() deletes its own, but
// nobody deletes those of snat rules.
func (k *Kernel) lost(c *conn, own []state.Address) (list []netip.Addr, err error) {
	gone := k.ways.lostBut(own)
	if len(gone) == 0 {
		return nil, nil
	}
	used := map[netip.Addr]bool{}
	err = c.sentFrom(gone, func(e natted) { used[e.from] = true })
	for a := range used {
		list = append(list, a)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Less(list[j]) })
	return list, err
}

// lostBut is what was lost of late and isn't there again.
func (c *routingChanges) lostBut(own []state.Address) map[netip.Addr]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range own {
		delete(c.gone, a.Prefix.Addr())
	}
	gone := make(map[netip.Addr]bool, len(c.gone))
	for a, since := range c.gone {
		if time.Since(since) > lostFor {
			delete(c.gone, a)
		} else {
			gone[a] = true
		}
	}
	return gone
}

// natted names one connection that is sent from another address than its own.
type natted struct {
	from  netip.Addr
	attrs [3][]byte // CTA_TUPLE_ORIG, CTA_ID, CTA_ZONE: which one it is
}

var nattedAttrs = [3]uint16{ctaTupleOrig, ctaID, ctaZone}

// sentFrom hands on the connections that the router sends from one of addrs.
func (c *conn) sentFrom(addrs map[netip.Addr]bool, each func(natted)) error {
	return steady(func() error {
		return c.ask(request{
			call: "read conntrack", typ: unix.NFNL_SUBSYS_CTNETLINK<<8 | ctGet, dump: true,
			header: nfHeader(unix.AF_UNSPEC, 0),
			attrs: func(w *writer) { // kernels before 6.0 ignore it
				w.be32(ctaStatus, statusSourceNAT)
				w.be32(ctaStatusMask, statusSourceNAT)
			},
		}, func(body []byte) {
			if e, status := readNATted(body); status&statusSourceNAT != 0 && addrs[e.from] {
				each(e)
			}
		})
	})
}

func readNATted(body []byte) (e natted, status uint32) {
	for typ, b := range attrsOf(body) {
		switch typ {
		case ctaStatus:
			status = be32(b)
		case ctaTupleReply:
			var t state.Tuple
			readTuple(b, &t)
			e.from, _ = netip.ParseAddr(t.Dst) // what answers are sent to
		}
		if i := slices.Index(nattedAttrs[:], typ); i >= 0 {
			e.attrs[i] = slices.Clone(b)
		}
	}
	return e, status
}

// forgetConnections deletes the connections that the router sends from one of
// addrs, each by its tuple and its number: never one that came in its place.
func (k *Kernel) forgetConnections(call string, addrs []netip.Addr) error {
	c, err := k.nfnetlink()
	if err != nil {
		return err
	}
	defer c.close()
	of := map[netip.Addr]bool{}
	for _, a := range addrs {
		of[a] = true
	}
	var list []natted
	if err := c.sentFrom(of, func(e natted) { list = append(list, e) }); err != nil {
		return err
	}
	for _, e := range list {
		family := byte(unix.AF_INET6)
		if e.from.Is4() {
			family = unix.AF_INET
		}
		err := c.ask(request{
			call: call, typ: unix.NFNL_SUBSYS_CTNETLINK<<8 | ctDelete, header: nfHeader(family, 0),
			attrs: func(w *writer) {
				for i, typ := range nattedAttrs {
					if typ == ctaTupleOrig {
						typ |= unix.NLA_F_NESTED
					}
					if e.attrs[i] != nil {
						w.attr(typ, e.attrs[i])
					}
				}
			},
		}, nil)
		if err != nil && !errors.Is(err, unix.ENOENT) { // it has ended
			return err
		}
	}
	return nil
}
