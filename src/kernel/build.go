// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// What x/sys/unix doesn't have (include/uapi/linux/netfilter/nf_tables.h).
const (
	nftaTableHandle       = 4
	nftaFlowtableTable    = 1
	nftaFlowtableName     = 2
	nftaFlowtableHook     = 3
	nftaFlowtableFlags    = 7
	nftaFlowtableHookNum  = 1
	nftaFlowtablePriority = 2
	nftaFlowtableHookDevs = 3
	nftaDeviceName        = 1
	nftaDevicePrefix      = 2
	nftaHookDevs          = 4
	flowtableHardware     = 1 // NFT_FLOWTABLE_HW_OFFLOAD
	flowtableCounter      = 2 // NFT_FLOWTABLE_COUNTER
	policyAccept          = 1 // NF_ACCEPT
)

// flowtableObject is what an error calls the flowtable.
const flowtableObject = "flowtable"

// chainSpec is a filter chain at a hook, policy accept.
type chainSpec struct {
	table, name string
	family      byte
	hook        uint32
	priority    int32
	device      string // family netdev
}

// forwardChain is the chain of our table: it comes after fw4's verdict.
func forwardChain(table string) chainSpec {
	return chainSpec{table: table, name: state.ChainName, family: unix.NFPROTO_INET,
		hook: unix.NF_INET_FORWARD, priority: state.ChainPriority}
}

func (b *batch) addTable(family byte, name string) {
	b.message("table "+name, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, family, func(w *writer) {
		w.str(unix.NFTA_TABLE_NAME, name)
		w.be32(unix.NFTA_TABLE_FLAGS, 0)
	})
}

func (b *batch) deleteTable(family byte, name string) {
	b.message("table "+name, unix.NFT_MSG_DELTABLE, 0, family, func(w *writer) {
		w.str(unix.NFTA_TABLE_NAME, name)
	})
}

// devicesPerMessage is what one message may name: the kernel refuses
// NFT_NETDEVICE_MAX, 256, and more (EFBIG). A flowtable may have more.
const devicesPerMessage = 255

// addFlowtable adds a flowtable, or devices to one that is there: without
// NLM_F_EXCL the kernel adds those that are missing and touches no other. It
// refuses an update that doesn't carry the flowtable's own number, priority
// and flags.
func (b *batch) addFlowtable(table, name string, f state.Flowtable, devices []string) {
	for first := true; first || len(devices) > 0; first = false {
		n := min(len(devices), devicesPerMessage)
		b.addToFlowtable(table, name, f, devices[:n])
		devices = devices[n:]
	}
}

func (b *batch) addToFlowtable(table, name string, f state.Flowtable, devices []string) {
	b.message(flowtableObject, unix.NFT_MSG_NEWFLOWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, func(w *writer) {
		w.str(nftaFlowtableTable, table)
		w.str(nftaFlowtableName, name)
		w.nest(nftaFlowtableHook, func() {
			w.be32(nftaFlowtableHookNum, f.Number)
			w.be32(nftaFlowtablePriority, 0)
			w.devices(devices)
		})
		var flags uint32
		if f.Counter {
			flags = flowtableCounter
		}
		w.be32(nftaFlowtableFlags, flags)
	})
}

// removeDevices takes devices out of a flowtable. (The same message without
// a hook would delete the flowtable.)
func (b *batch) removeDevices(table, name string, devices []string) {
	for part := range slices.Chunk(devices, devicesPerMessage) {
		b.message(flowtableObject, unix.NFT_MSG_DELFLOWTABLE, 0, unix.NFPROTO_INET, func(w *writer) {
			w.str(nftaFlowtableTable, table)
			w.str(nftaFlowtableName, name)
			w.nest(nftaFlowtableHook, func() { w.devices(part) })
		})
	}
}

// deleteFlowtable deletes a flowtable and sends its flows back to the slow path.
func (b *batch) deleteFlowtable(table, name string) {
	b.message(flowtableObject, unix.NFT_MSG_DELFLOWTABLE, 0, unix.NFPROTO_INET, func(w *writer) {
		w.str(nftaFlowtableTable, table)
		w.str(nftaFlowtableName, name)
	})
}

func (w *writer) devices(names []string) {
	if len(names) == 0 {
		return
	}
	w.nest(nftaFlowtableHookDevs, func() {
		for _, n := range names {
			w.str(nftaDeviceName, n)
		}
	})
}

func (b *batch) addChain(c chainSpec) {
	b.message("chain "+c.name, unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, c.family, func(w *writer) {
		w.str(unix.NFTA_CHAIN_TABLE, c.table)
		w.str(unix.NFTA_CHAIN_NAME, c.name)
		w.nest(unix.NFTA_CHAIN_HOOK, func() {
			w.be32(unix.NFTA_HOOK_HOOKNUM, c.hook)
			w.be32(unix.NFTA_HOOK_PRIORITY, uint32(c.priority))
			if c.device != "" {
				w.str(unix.NFTA_HOOK_DEV, c.device)
			}
		})
		w.be32(unix.NFTA_CHAIN_POLICY, policyAccept)
		w.str(unix.NFTA_CHAIN_TYPE, "filter")
	})
}

// deleteChain deletes a chain and its rules.
func (b *batch) deleteChain(family byte, table, name string) {
	b.message("chain "+name, unix.NFT_MSG_DELCHAIN, 0, family, func(w *writer) {
		w.str(unix.NFTA_CHAIN_TABLE, table)
		w.str(unix.NFTA_CHAIN_NAME, name)
	})
}

// addPlainChain adds a chain without a hook, which rules send packets to.
func (b *batch) addPlainChain(table, name string) {
	b.message("chain "+name, unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, unix.NFPROTO_INET, func(w *writer) {
		w.str(unix.NFTA_CHAIN_TABLE, table)
		w.str(unix.NFTA_CHAIN_NAME, name)
	})
}

// flush deletes all rules of a table in family inet.
func (b *batch) flush(table string) {
	b.message("the rules of table "+table, unix.NFT_MSG_DELRULE, 0, unix.NFPROTO_INET, func(w *writer) {
		w.str(unix.NFTA_RULE_TABLE, table)
	})
}

// addRule appends a rule. comment is kept where nft keeps its own, so that
// `nft list ruleset` prints it.
func (b *batch) addRule(c chainSpec, exprs []expr.Any, comment string) (int, error) {
	encoded := make([][]byte, len(exprs))
	for i, e := range exprs {
		var err error
		if encoded[i], err = expr.Marshal(c.family, e); err != nil {
			return 0, fmt.Errorf("rule %q: %w", comment, err)
		}
	}
	data, err := userData(comment)
	if err != nil {
		return 0, err
	}
	return b.message("rule "+comment, unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, c.family, func(w *writer) {
		w.str(unix.NFTA_RULE_TABLE, c.table)
		w.str(unix.NFTA_RULE_CHAIN, c.name)
		w.nest(unix.NFTA_RULE_EXPRESSIONS, func() {
			for _, e := range encoded {
				w.attr(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, e)
			}
		})
		w.attr(unix.NFTA_RULE_USERDATA, data)
	}), nil
}

// setName is a template: the kernel numbers anonymous sets.
const setName = "__set%d"

// addSpans adds an anonymous set, to which a rule of the same batch refers by
// the number that it returns. spans come from join.
func (b *batch) addSpans(table string, keyType uint32, spans []span) uint32 {
	b.sets++
	id, flags, size := b.sets, uint32(unix.NFT_SET_ANONYMOUS|unix.NFT_SET_CONSTANT), len(spans)
	intervals := slices.ContainsFunc(spans, func(s span) bool { return !s.single() })
	if intervals {
		flags, size = flags|unix.NFT_SET_INTERVAL, 2*size
	}
	b.message("a set", unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, unix.NFPROTO_INET, func(w *writer) {
		w.str(unix.NFTA_SET_TABLE, table)
		w.str(unix.NFTA_SET_NAME, setName)
		w.be32(unix.NFTA_SET_FLAGS, flags)
		w.be32(unix.NFTA_SET_KEY_TYPE, keyType)
		w.be32(unix.NFTA_SET_KEY_LEN, uint32(len(spans[0].first)))
		w.be32(unix.NFTA_SET_ID, id)
		w.nest(unix.NFTA_SET_DESC, func() { w.be32(unix.NFTA_SET_DESC_SIZE, uint32(size)) })
	})
	for part := range slices.Chunk(spans, elementsPerMessage/2) {
		b.message("a set's elements", unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, unix.NFPROTO_INET, func(w *writer) {
			w.str(unix.NFTA_SET_ELEM_LIST_TABLE, table)
			w.str(unix.NFTA_SET_ELEM_LIST_SET, setName)
			w.be32(unix.NFTA_SET_ELEM_LIST_SET_ID, id)
			w.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func() {
				for _, s := range part {
					w.span(s, intervals)
				}
			})
		})
	}
	return id
}

// span is an element, and in an interval set also where it ends: at the key
// behind it, unless there is none.
func (w *writer) span(s span, interval bool) {
	element := func(key []byte, flags uint32) {
		w.nest(unix.NFTA_LIST_ELEM, func() {
			w.nest(unix.NFTA_SET_ELEM_KEY, func() { w.attr(unix.NFTA_DATA_VALUE, key) })
			if flags != 0 {
				w.be32(unix.NFTA_SET_ELEM_FLAGS, flags)
			}
		})
	}
	element(s.first, 0)
	if end := after(s.last); interval && end != nil {
		element(end, unix.NFT_SET_ELEM_INTERVAL_END)
	}
}
