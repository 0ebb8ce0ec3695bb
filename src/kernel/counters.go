// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

const ethernetHeader = 14 // that devices count in their bytes

// Counters takes one sample: the slow path from the counting rule of chain
// forward, every link's own counters, and our chains at netdev ingress. A
// count that is lower than before has begun again: its rule or port is new.
func (k *Kernel) Counters() (state.Counters, error) {
	const op = "read counters"
	out := state.Counters{Ports: map[string]state.PortCounters{}, Rules: map[string]uint64{}}
	links, err := k.dumpLinks()
	if err != nil {
		return out, refused(op, err)
	}
	for _, l := range links {
		if s := l.Attrs().Statistics; s != nil {
			out.Ports[l.Attrs().Name] = state.PortCounters{
				RxPackets: s.RxPackets, RxBytes: s.RxBytes, TxPackets: s.TxPackets, TxBytes: s.TxBytes}
		}
	}
	lo := out.Ports["lo"]
	inside := lo.RxBytes - min(lo.RxBytes, ethernetHeader*lo.RxPackets)
	out.StackBytes = max(stackBytes(), inside) - inside
	c, err := k.nfnetlink()
	if err != nil {
		return out, refused(op, err)
	}
	defer c.close()
	if err := c.slowPath(&out); err != nil {
		return out, refused(op, err)
	}
	if err := c.dropped(&out); err != nil {
		return out, refused(op, err)
	}
	return out, refused(op, c.ingress(out.Ports))
}

// slowPath reads what our rules have counted. One counts every packet: after
// `flow add` a counter would only see packets that add a flow; before it, it
// sees them all.
func (c *conn) slowPath(out *state.Counters) error {
	counts, err := c.counts()
	for identity, r := range counts {
		out.Rules[identity] = r.packets
	}
	slow := counts[string(state.Count)]
	out.SlowPackets, out.SlowBytes = slow.packets, slow.bytes
	return err
}

// counts are the rules of our table that have counted something, by identity;
// of several alike, the first in chain forward.
func (c *conn) counts() (counts map[string]ruleInfo, err error) {
	err = c.rules(unix.NFPROTO_INET, state.TableName, func() { counts = map[string]ruleInfo{} }, func(r ruleInfo) {
		rule, _, ok := readComment(r.comment)
		if _, found := counts[rule.Read]; found || !ok || r.packets == 0 || r.chain != state.ChainName {
			return
		}
		counts[rule.Read] = r
	})
	return counts, err
}

// dropped reads what our chains have dropped by source, and source validation.
func (c *conn) dropped(out *state.Counters) error {
	drops, err := c.drops()
	if err != nil {
		return err
	}
	out.Dropped = map[string]uint64{}
	for _, ch := range drops {
		out.Dropped[ch.device] += ch.packets
	}
	return c.rules(unix.NFPROTO_INET, state.TableName, func() { out.Invalid = 0 }, func(r ruleInfo) {
		if validationRules(&state.Validation{}, r.chain) != nil {
			out.Invalid += r.packets
		}
	})
}

// ingress reads what our counting chains have seen. A device that isn't there
// (newer kernels keep its chain) has no counters.
func (c *conn) ingress(ports map[string]state.PortCounters) error {
	checks, err := c.checks()
	if err != nil || len(checks) == 0 {
		return err
	}
	seen := map[string]uint64{}
	err = c.rules(unix.NFPROTO_NETDEV, state.TableName, func() { clear(seen) }, func(r ruleInfo) { seen[r.chain] += r.packets })
	if err != nil {
		return err
	}
	for device, chain := range checks {
		if p, ok := ports[device]; ok {
			p.Ingress = seen[chain]
			ports[device] = p
		}
	}
	return nil
}
