// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// What drops by source lives in table netdev fastpath, beside the check chains.
const dropPriority = -200 // before a flowtable, whose priority is 0; behind the check chains

// dropPrefixes are how the names of our chains begin (state.DropChain.Name).
var dropPrefixes = []string{"drop-", "early-drop-"}

// EtherTypes and protocol numbers of PPP (RFC 2516, RFC 1661, RFC 5072).
const (
	pppoeType    = 0x8864
	pppoeSession = 0x1100 // version, type and code of session data
	pppIPv4      = 0x0021
	pppIPv6      = 0x0057
)

// dropChain is one of our chains, as the kernel has it.
type dropChain struct {
	name     string
	device   string // "" where it is gone: newer kernels keep the chain
	identity string
	packets  uint64
}

// drops reads our chains. Of one that was made otherwise the identity is one that
// nobody wants.
func (c *conn) drops() (found []dropChain, err error) {
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
	for _, ch := range chains {
		if !hasPrefix(ch.name, dropPrefixes) {
			continue
		}
		d := dropChain{name: ch.name, identity: "foreign", packets: packets[ch.name]}
		if len(ch.devices) > 0 {
			d.device = ch.devices[0]
		}
		if ch.typ == "filter" && ch.priority == dropPriority && ch.policy == policyAccept && len(ch.devices) < 2 {
			d.identity = state.DropIdentity(d.device, ch.hook, rules[ch.name])
		}
		found = append(found, d)
	}
	return found, err
}

// haveDrop are the chains and the sets that there are.
func (c *conn) haveDrop() (chains []dropChain, sets []string, err error) {
	if chains, err = c.drops(); err != nil {
		return nil, nil, err
	}
	sets, err = c.dropSets()
	return chains, sets, err
}

// readDrop is what there is of drop sections.
func (c *conn) readDrop(seen *state.DropState) error {
	chains, sets, err := c.haveDrop()
	for _, ch := range chains {
		seen.Chains = append(seen.Chains, ch.identity)
	}
	slices.Sort(seen.Chains)
	seen.Sets = sets
	return err
}

// setDrop makes what is wanted: sets first, in as many transactions as they need,
// and then all chains and what becomes of the sets before in one.
func (c *conn) setDrop(call string, d state.Drop) error {
	have, sets, err := c.haveDrop()
	if err != nil {
		return err
	}
	var b batch
	b.addTable(unix.NFPROTO_NETDEV, state.TableName)
	packets := map[string]uint64{}
	for _, ch := range have {
		b.deleteChain(unix.NFPROTO_NETDEV, state.TableName, ch.name)
		packets[ch.device] += ch.packets
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
	for _, ch := range d.Chains {
		if err := b.addDropChain(ch, d.Sets, packets[ch.Port]); err != nil {
			return err
		}
		delete(packets, ch.Port)
	}
	return c.commit(call, &b)
}

// refers: rules look into a set, so it is complete.
func refers(have []dropChain, set string) bool {
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

// removeDrop removes all of it, and the table if nothing else is in it.
func (c *conn) removeDrop(call string) error {
	have, sets, err := c.haveDrop()
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
		for _, ch := range have {
			b.deleteChain(unix.NFPROTO_NETDEV, state.TableName, ch.name)
		}
		for _, name := range sets {
			b.deleteDropSet(name)
		}
	}
	_, err = absent(c.commit(call, &b))
	return err
}

// addDropChain adds a chain. So many packets were dropped before.
func (b *batch) addDropChain(d state.DropChain, sets []state.DropSet, before uint64) error {
	chain := chainSpec{table: state.TableName, name: d.Name(), family: unix.NFPROTO_NETDEV,
		hook: d.Number, priority: dropPriority, device: d.Port}
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
	switch {
	case len(types) > 1 && types[1] != ip:
		// Newer kernels (7.3; nft_meta_pktinfo_may_update, net/netfilter/nft_meta.c) look
		// into one tag or PPPoE header, where the first rule reads the protocol: if IP
		// is there, the network header begins with it, and form "ip" matches. If not,
		// they tell the second type, but for a packet that lies where it lay.
		exprs = append(exprs, compare(expr.CmpOpNeq, unix.ETH_P_IP), compare(expr.CmpOpNeq, unix.ETH_P_IPV6))
	case types[0] != ip:
		// nft 1.0.6 aborts where a rule that says to be about VLANs or PPPoE reads the
		// network header. This means the same, and nft doesn't know.
		exprs = append(exprs, compare(expr.CmpOpGte, types[0]), compare(expr.CmpOpLte, types[0]))
	default:
		exprs = append(exprs, compare(expr.CmpOpEq, ip))
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
		load(at, 2)
		exprs = append(exprs, compare(expr.CmpOpEq, pppoeSession))
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
