// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// Counters takes one sample: the slow path from the counting rule of chain
// forward, every link's own counters, and our chains at netdev ingress. A
// count that is lower than before has begun again: its rule or port is new.
func (k *Kernel) Counters() (state.Counters, error) {
	const op = "read counters"
	out := state.Counters{Ports: map[string]state.PortCounters{}}
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
	c, err := k.nfnetlink()
	if err != nil {
		return out, refused(op, err)
	}
	defer c.close()
	if err := c.slowPath(&out); err != nil {
		return out, refused(op, err)
	}
	return out, refused(op, c.ingress(out.Ports))
}

// slowPath reads the first rule of ours that counts every packet. After
// `flow add` a counter would only see packets that add a flow; before it, it
// sees them all.
func (c *conn) slowPath(out *state.Counters) error {
	found := false
	return c.rules(unix.NFPROTO_INET, state.TableName, func() { found = false }, func(r ruleInfo) {
		rule, _, ok := readComment(r.comment)
		if found || !ok || r.chain != state.ChainName || rule != (state.Rule{Verdict: state.Count}) {
			return
		}
		found = true
		out.SlowPackets, out.SlowBytes = r.packets, r.bytes
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
