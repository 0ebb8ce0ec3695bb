// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

const fw4Name = "fw4"

// ownTable reads our table back; nil: there is none. A table that we wouldn't
// have made comes out unreadable: equal to nothing that anybody wants.
func (c *conn) ownTable() (*state.Table, error) {
	t, err := c.table(unix.NFPROTO_INET, state.TableName)
	if t == nil || err != nil {
		return nil, err
	}
	flowtables, err := c.flowtablesOf(state.TableName)
	if err != nil {
		return nil, err
	}
	chain, err := c.chain(unix.NFPROTO_INET, state.TableName, state.ChainName)
	if err != nil {
		return nil, err
	}
	out := &state.Table{}
	chains, err := c.readRules(out)
	if err != nil {
		return nil, err
	}
	sets, err := c.readSets(out)
	if err != nil {
		return nil, err
	}
	validation, err := c.validationChains(out.Validation)
	if err != nil {
		return nil, err
	}
	chains += validation
	if why := oddity(t, flowtables, chain, sets+chains); why != "" {
		return unreadable(why), nil
	}
	if len(flowtables) == 1 {
		f := flowtables[0]
		slices.Sort(f.devices)
		out.Flowtable = state.Flowtable{Number: f.number, Devices: f.devices, Counter: f.flags&flowtableCounter != 0}
	}
	return out, nil
}

// readRules fills in a table's rules, and tells how many chains they need: the
// second one begins behind the rule that sends everything there.
func (c *conn) readRules(out *state.Table) (chains int, err error) {
	in := state.ChainName
	err = c.rules(unix.NFPROTO_INET, state.TableName,
		func() {
			out.Rules, out.Generation, in, chains = nil, "", state.ChainName, 1
			out.Validation = state.Validation{}
		},
		func(r ruleInfo) {
			rule, gen, ok := readComment(r.comment)
			if list := validationRules(&out.Validation, r.chain); list != nil && ok {
				*list = append(*list, rule)
				return
			}
			if !ok || r.chain != in {
				rule = foreign(fmt.Sprintf("a rule of chain %s that is not ours", r.chain))
			}
			if gen != "" {
				out.Generation = gen
			}
			if in == state.ChainName && rule.Read == string(state.Accelerate) {
				in, chains = state.AccelerateChain, 2
			}
			out.Rules = append(out.Rules, rule)
		})
	return chains, err
}

// oddity says what in our table, of which so many chains and named sets are
// ours, is not as we would have made it.
func oddity(t *tableInfo, flowtables []flowtableInfo, chain *chainInfo, objects int) string {
	switch {
	case t.flags&unix.NFT_TABLE_F_DORMANT != 0:
		return "the table is switched off (dormant)"
	case len(flowtables) > 1:
		return fmt.Sprintf("%d flowtables", len(flowtables))
	case len(flowtables) == 1 && (flowtables[0].priority != 0 || flowtables[0].flags&^flowtableCounter != 0):
		return "the flowtable has another priority or other flags"
	case chain == nil:
		return "no chain " + state.ChainName
	case chain.typ != "filter" || chain.hook != unix.NF_INET_FORWARD ||
		chain.priority != state.ChainPriority || chain.policy != policyAccept:
		return "chain " + state.ChainName + " has another type, hook, priority or policy"
	case int(t.use) != len(flowtables)+objects: // rules' own sets don't count
		return "objects that are not ours"
	}
	return ""
}

// unreadable is a table that is equal to no wanted one, neither in the
// flowtable nor in the rules, and that says why.
func unreadable(why string) *state.Table {
	return &state.Table{
		Flowtable: state.Flowtable{Number: math.MaxUint32},
		Rules:     []state.Rule{foreign(why)},
	}
}

func foreign(why string) state.Rule { return state.Rule{Read: "foreign: " + why} }

// fw4 reads what OpenWrt's firewall has in the kernel. Its generation is a
// fingerprint of the table's handle and its rules' handles: the kernel gives
// every new rule the next one, so that a reload changes it and a change of a
// set's elements doesn't.
func (c *conn) fw4() (state.FW4, error) {
	var f state.FW4
	t, err := c.table(unix.NFPROTO_INET, fw4Name)
	if t == nil || err != nil {
		return f, err
	}
	h := fnv.New64a()
	number := func(n uint64) { h.Write(binary.BigEndian.AppendUint64(nil, n)) }
	err = c.rules(unix.NFPROTO_INET, fw4Name,
		func() { h.Reset(); number(t.handle) },
		func(r ruleInfo) { number(r.handle) })
	if err != nil {
		return f, err
	}
	flowtables, err := c.flowtablesOf(fw4Name)
	if err != nil {
		return f, err
	}
	f.Present, f.Generation = true, fmt.Sprintf("%016x", h.Sum64())
	for _, ft := range flowtables {
		f.Offload = true
		f.Hardware = f.Hardware || ft.flags&flowtableHardware != 0
	}
	return f, nil
}
