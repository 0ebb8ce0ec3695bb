// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"fmt"
	"net/netip"
	"slices"

	"fastpath/src/packet"
)

// resolver turns connections into paths. It is pure: what it reads is in it,
// and the routes that it lacks it collects for others to ask the kernel for.
type resolver struct {
	mark    uint32 // the bit
	ports   map[int]Port
	world   *world
	tunnels *tunnels
	known   map[query]route
	missing map[query]bool
	ends    map[endKey]*end
}

func newResolver(mark uint32, ports map[int]Port, w *world, t *tunnels) *resolver {
	return &resolver{mark: mark, ports: ports, world: w, tunnels: t,
		known: map[query]route{}, missing: map[query]bool{}, ends: map[endKey]*end{}}
}

// path is a connection as two entries for the Sink: the originator's direction
// first, then the replies'.
type path struct {
	key [2]packet.Key
	act [2]packet.Action
}

// resolution is what was made of a connection: a path, or why there is none.
type resolution struct {
	path   path
	ends   [2]*end // the originator's and the other's; nil: it did not come so far
	reason string  // in words for the owner; "": the path is right
}

// resolve makes the path of c. ready is false while routes are missing.
func (r *resolver) resolve(c *connection) (res resolution, ready bool) {
	if res.reason = r.unfit(c); res.reason != "" {
		return res, true
	}
	there, back, reason, ready := r.bothRoutes(c)
	if !ready || reason != "" {
		res.reason = reason
		return res, ready
	}
	six := !c.orig.Src.Addr().Is4()
	for i, k := range [2]endKey{
		{back.dev, nextHop(back, c.orig.Src.Addr()), six},
		{there.dev, nextHop(there, c.destination().Addr()), six},
	} {
		if res.ends[i], ready = r.end(k); !ready {
			return res, false
		}
	}
	res.reason = res.join(c, [2]route{there, back})
	return res, true
}

// unfit says of a connection why no engine may carry it, whatever its path.
func (r *resolver) unfit(c *connection) string {
	switch {
	case c.orig.Proto == packet.TCP && c.tcpState != tcpEstablished:
		return "the TCP connection is not established"
	case c.orig.Proto == packet.UDP && c.status&statusSeenReply == 0:
		return "the UDP connection has no answer yet"
	case c.status&statusClash != 0: // its original tuple names another entry (nf_ct_resolve_clash)
		return "it clashed with another connection"
	case c.status&statusConfirmed == 0 || c.status&statusDying != 0:
		return "the connection is ending"
	case c.status&statusOffload != 0:
		return "a flowtable carries it"
	case c.helper:
		return "it has a conntrack helper"
	case c.status&statusSeqAdjust != 0:
		return "its sequence numbers are adjusted"
	case c.zone:
		return "it is in a conntrack zone"
	case c.mark&^r.mark != 0:
		return fmt.Sprintf("it carries the mark %#x of somebody else, which may decide its route", c.mark&^r.mark)
	case r.world.ipsec:
		return "there are IPsec policies"
	case r.world.rules.tos:
		return "a routing rule looks at what conntrack doesn't tell (TOS, DSCP, flow label)"
	}
	for _, a := range []netip.Addr{c.orig.Src.Addr(), c.destination().Addr()} {
		if r.world.addresses[a] {
			return fmt.Sprintf("it ends at the router itself (%v)", a)
		}
	}
	return ""
}

// bothRoutes asks the kernel for the way of both directions. The device where
// the originator's packets come in isn't known, so it begins with the way to
// the originator; the replies must then lead back there. IPv6's default routes
// may depend on the source; IPv4 takes no foreign source without a device.
func (r *resolver) bothRoutes(c *connection) (there, back route, reason string, ready bool) {
	from, to := c.orig.Src, c.destination()
	q := query{dst: from.Addr()}
	if !from.Addr().Is4() {
		q.src = to.Addr()
	}
	guess, ready := r.route(q)
	if !ready || guess.refusal != "" {
		return there, back, guess.refusal, ready
	}
	there, reason, ready = r.forwarded(c.orig.Proto, from, to, guess.dev)
	if !ready || reason != "" {
		return there, back, reason, ready
	}
	back, reason, ready = r.forwarded(c.orig.Proto, to, from, there.dev)
	if ready && reason == "" && back.dev != guess.dev {
		reason = fmt.Sprintf("asymmetric routes: answers to %v leave by %s, its packets should come by %s",
			from.Addr(), r.world.name(back.dev), r.world.name(guess.dev))
	}
	return there, back, reason, ready
}

// forwarded is the route of packets that come in by dev with these addresses,
// which are the real ones: after DNAT and before SNAT. It must be the same
// with every mark that a routing rule asks for: marks that rules of nftables
// give to packets can't be seen.
func (r *resolver) forwarded(proto uint8, src, dst netip.AddrPort, dev int) (a route, reason string, ready bool) {
	q := query{dst: dst.Addr(), src: src.Addr(), iif: dev}
	if r.world.rules.ports {
		q.proto, q.sport, q.dport = proto, src.Port(), dst.Port()
	}
	a, ready = r.route(q)
	for _, q.mark = range r.world.rules.marks {
		b, ok := r.route(q)
		if ready = ready && ok; ready && !a.same(b) {
			reason = fmt.Sprintf("a routing rule sends packets to %v with mark %#x another way", dst.Addr(), q.mark)
		}
	}
	if a.refusal != "" {
		reason = a.refusal
	}
	return a, reason, ready
}

// route is the kernel's answer, if it is known; else it is asked for.
func (r *resolver) route(q query) (a route, ready bool) {
	if a, ready = r.known[q]; !ready {
		r.missing[q] = true
	}
	return a, ready
}

// end is the one of k, made when it is first asked for.
func (r *resolver) end(k endKey) (e *end, ready bool) {
	if e = r.ends[k]; e == nil {
		if e = r.makeEnd(k); e != nil {
			r.ends[k] = e
		}
	}
	return e, e != nil
}

// forget takes out the ends that go by what has changed.
func (r *resolver) forget(changed map[use]bool) (stale bool) {
	for k, e := range r.ends {
		if slices.ContainsFunc(e.uses, func(u use) bool { return changed[u] }) {
			e.stale, stale = true, true
			delete(r.ends, k)
		}
	}
	return stale
}

// stale: a neighbour that the path goes by has changed since.
func (res *resolution) stale() bool {
	return slices.ContainsFunc(res.ends[:], func(e *end) bool { return e != nil && e.stale })
}

// port is where packets of a direction come in.
func (res *resolution) port(i int) Port { return res.ends[i].port }

func nextHop(a route, dst netip.Addr) netip.Addr {
	if a.gateway.IsValid() {
		return a.gateway
	}
	return dst
}

// join makes the entries of both directions from the two ends; routes are
// those of the originator's packets and of the replies.
func (res *resolution) join(c *connection, routes [2]route) (reason string) {
	from, to := res.ends[0], res.ends[1]
	for _, e := range res.ends {
		if e.refusal != "" {
			return e.refusal
		}
	}
	if from.port.Engine != to.port.Engine {
		return fmt.Sprintf("%s has engine %s, %s has %s", from.port.Name, from.port.Engine, to.port.Name, to.port.Engine)
	}
	for i, d := range [2]struct {
		in, out     *end
		comes, goes packet.Tuple
	}{{from, to, c.orig, turned(c.reply)}, {to, from, c.reply, turned(c.orig)}} {
		mtu := d.out.mtu
		if m := routes[i].mtu; m > 0 {
			mtu = min(mtu, m)
		}
		key, err := packet.NewKey(d.in.wire, d.comes)
		if err != nil {
			return err.Error()
		}
		act, err := packet.NewAction(key, d.out.wire, d.goes, uint16(mtu))
		if err != nil {
			return err.Error()
		}
		res.path.key[i], res.path.act[i] = key, act
	}
	if res.path.key[0] == res.path.key[1] {
		return "both directions look the same on the wire"
	}
	return ""
}

// encap is the connection's encapsulation in words.
func (res *resolution) encap() string {
	in, out := res.ends[0].encap, res.ends[1].encap
	switch {
	case in == "":
		return out
	case out == "":
		return in
	}
	return "in: " + in + "; out: " + out
}
