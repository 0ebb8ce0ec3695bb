// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// What drops by source lives in table netdev fastpath, beside the check chains.
const (
	dropPrefix   = "drop-"
	dropPriority = -200 // before a flowtable, whose priority is 0; behind the check chains
)

// EtherTypes and protocol numbers of PPP (RFC 2516, RFC 1661, RFC 5072).
const (
	pppoeType = 0x8864
	pppIPv4   = 0x0021
	pppIPv6   = 0x0057
)

// dropChain is one of our chains, as the kernel has it.
type dropChain struct {
	name     string
	identity string
	packets  uint64
}

// drops reads our chains, by device. Of one that was made otherwise the identity
// is one that nobody wants.
func (c *conn) drops() (map[string]dropChain, error) {
	chains, err := c.chains(unix.NFPROTO_NETDEV, state.TableName)
	if err != nil || len(chains) == 0 {
		return nil, err
	}
	rules, packets := map[string][]string{}, map[string]uint64{}
	err = c.rules(unix.NFPROTO_NETDEV, state.TableName, func() { clear(rules); clear(packets) }, func(r ruleInfo) {
		text, _ := strings.CutPrefix(r.comment, commentPrefix)
		rules[r.chain] = append(rules[r.chain], text)
		packets[r.chain] += r.packets
	})
	found := map[string]dropChain{}
	for _, ch := range chains {
		if !strings.HasPrefix(ch.name, dropPrefix) {
			continue
		}
		d := dropChain{ch.name, "foreign", packets[ch.name]}
		if ch.typ == "filter" && ch.priority == dropPriority && ch.policy == policyAccept {
			d.identity = state.DropIdentity(ch.hook, rules[ch.name])
		}
		// Newer kernels keep a chain whose device is gone: it stands there for nothing.
		for _, device := range append(ch.devices, "-"+ch.name)[:max(len(ch.devices), 1)] {
			found[device] = d
		}
	}
	return found, err
}

// readDrop is what there is of drop sections.
func (c *conn) readDrop(seen *state.DropState) error {
	chains, err := c.drops()
	if err != nil {
		return err
	}
	for device, ch := range chains {
		if seen.Chains == nil {
			seen.Chains = map[string]string{}
		}
		seen.Chains[device] = ch.identity
	}
	seen.Sets, err = c.dropSets()
	return err
}

// setDrop makes what is wanted: sets first, in as many transactions as they need,
// and then all chains and what becomes of the sets before in one.
func (c *conn) setDrop(call string, d state.Drop) error {
	have, err := c.drops()
	if err != nil {
		return err
	}
	sets, err := c.dropSets()
	if err != nil {
		return err
	}
	var b batch
	b.addTable(unix.NFPROTO_NETDEV, state.TableName)
	for _, ch := range chainsOf(have) {
		b.deleteChain(unix.NFPROTO_NETDEV, state.TableName, ch)
	}
	for _, name := range sets {
		if !refers(have, name) { // left behind half made
			if err := c.deleteDropSet(call, name); err != nil {
				return err
			}
		} else if !wanted(d, name) {
			b.deleteDropSet(name)
		}
	}
	for _, s := range d.Sets {
		if !refers(have, s.Name) {
			if err := c.makeDropSet(call, s); err != nil {
				return err
			}
		}
	}
	for _, device := range sortedKeys(d.Chains) {
		if err := b.addDropChain(device, d.Chains[device], d.Sets, have[device].packets); err != nil {
			return err
		}
	}
	return c.commit(call, &b)
}

// refers: rules look into a set, so it is complete.
func refers(have map[string]dropChain, set string) bool {
	for _, ch := range have {
		if strings.Contains(ch.identity, "@"+set+" ") {
			return true
		}
	}
	return false
}

func wanted(d state.Drop, set string) bool {
	for _, s := range d.Sets {
		if s.Name == set {
			return true
		}
	}
	return false
}

// chainsOf are the chains' names, each once.
func chainsOf(have map[string]dropChain) []string {
	names := map[string]bool{}
	for _, ch := range have {
		names[ch.name] = true
	}
	return sortedKeys(names)
}

// removeDrop removes all of it, and the table if nothing else is in it.
func (c *conn) removeDrop(call string) error {
	have, err := c.drops()
	if err != nil {
		return err
	}
	sets, err := c.dropSets()
	if err != nil {
		return err
	}
	checks, err := c.checks()
	if err != nil {
		return err
	}
	var b batch
	if len(checks) == 0 {
		b.deleteTable(unix.NFPROTO_NETDEV, state.TableName)
	} else {
		for _, ch := range chainsOf(have) {
			b.deleteChain(unix.NFPROTO_NETDEV, state.TableName, ch)
		}
		for _, name := range sets {
			b.deleteDropSet(name)
		}
	}
	_, err = absent(c.commit(call, &b))
	return err
}

// addDropChain adds the chain of a device, which has dropped so many packets.
func (b *batch) addDropChain(device string, d state.DropChain, sets []state.DropSet, before uint64) error {
	chain := chainSpec{table: state.TableName, name: dropPrefix + device, family: unix.NFPROTO_NETDEV,
		hook: d.Number, priority: dropPriority, device: device}
	b.addChain(chain)
	rules := d.Rules(sets)
	for _, s := range sets {
		for _, f := range d.Forms {
			exprs := append(dropMatch(f, s), &expr.Counter{Packets: before}, &expr.Verdict{Kind: expr.VerdictDrop})
			if _, err := b.addRule(chain, exprs, commentPrefix+rules[0]); err != nil {
				return err
			}
			rules, before = rules[1:], 0
		}
	}
	return nil
}

// dropMatch matches packets of a form whose source is in a set. The payload is
// read as it lies there: nf_tables knows IP's place only in frames that are
// IP's own. The network header begins behind the Ethernet header.
func dropMatch(f state.DropForm, s state.DropSet) []expr.Any {
	at, size, ip, ppp := uint32(0), uint32(4), uint16(unix.ETH_P_IP), uint16(pppIPv4)
	source := uint32(12)
	if s.Family == "ipv6" {
		size, ip, ppp, source = 16, unix.ETH_P_IPV6, pppIPv6, 8
	}
	inner := ip
	if f.PPPoE {
		inner = pppoeType
	}
	types := append(append([]uint16{}, f.Tags...), inner)
	exprs := []expr.Any{&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1}}
	if types[0] != ip {
		// nft 1.0.6 aborts where a rule that says to be about VLANs or PPPoE reads the
		// network header. This means the same, and nft doesn't know.
		exprs = append(exprs, compare(expr.CmpOpGte, types[0]), compare(expr.CmpOpLte, types[0]))
	} else {
		exprs = append(exprs, compare(expr.CmpOpEq, types[0]))
	}
	load := func(offset, size uint32) {
		exprs = append(exprs, &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size})
	}
	for _, typ := range types[1:] {
		load(at+2, 2)
		exprs = append(exprs, compare(expr.CmpOpEq, typ))
		at += 4
	}
	if f.PPPoE {
		load(at+6, 2)
		exprs = append(exprs, compare(expr.CmpOpEq, ppp))
		at += 8
	}
	load(at+source, size)
	return append(exprs, &expr.Lookup{SourceRegister: 1, SetName: s.Name})
}

func compare(op expr.CmpOp, v uint16) expr.Any {
	return &expr.Cmp{Op: op, Register: 1, Data: []byte{byte(v >> 8), byte(v)}}
}
