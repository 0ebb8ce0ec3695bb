// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// replaceTable makes our table anew. Only sets that policies name and that are
// there already stay, with what is in them, and what rules have counted.
func (c *conn) replaceTable(b *batch, t state.Table) error {
	kept, err := c.clearTable(b, t)
	if err != nil {
		return err
	}
	if b.counts, err = c.counts(); err != nil {
		return err
	}
	if f := t.Flowtable; len(f.Devices) > 0 {
		b.addFlowtable(state.TableName, state.FlowtableName, f, f.Devices)
	}
	for _, kind := range sortedKeys(t.Engines) {
		b.addDevices(state.TableName, kind, t.Engines[kind])
	}
	b.addSets(t, kept)
	b.addChain(forwardChain(state.TableName))
	return b.addRules(t)
}

// clearTable leaves nothing in our table but sets that stay. One that holds more
// than can be taken out of it piece by piece, or that is switched off, goes whole.
func (c *conn) clearTable(b *batch, t state.Table) (kept []state.Set, err error) {
	// Deleting a table that isn't there would end the transaction: so it is
	// added first, which for one that is there changes nothing.
	b.addTable(unix.NFPROTO_INET, state.TableName)
	info, have, flowtables := (*tableInfo)(nil), contents{}, []flowtableInfo(nil)
	if len(t.Sets) > 0 {
		if info, err = c.table(unix.NFPROTO_INET, state.TableName); err != nil {
			return nil, err
		}
	}
	if info != nil {
		if have, err = c.contents(t); err != nil {
			return nil, err
		}
		if flowtables, err = c.flowtablesOf(state.TableName); err != nil {
			return nil, err
		}
	}
	if len(have.kept) == 0 || info.flags != 0 || int(info.use) != len(have.kept)+len(have.others)+len(have.chains)+len(flowtables) {
		b.deleteTable(unix.NFPROTO_INET, state.TableName)
		b.addTable(unix.NFPROTO_INET, state.TableName)
		return nil, nil
	}
	b.flush(state.TableName)
	for _, name := range have.others {
		b.deleteSet(state.TableName, name)
	}
	for _, name := range have.chains {
		b.deleteChain(unix.NFPROTO_INET, state.TableName, name)
	}
	for _, f := range flowtables {
		b.deleteFlowtable(state.TableName, f.name)
	}
	return have.kept, nil
}

// contents is what our table holds.
type contents struct {
	kept   []state.Set // sets that stay
	others []string    // named sets that don't
	chains []string
}

func (c *conn) contents(t state.Table) (have contents, err error) {
	sets, err := c.sets(unix.NFPROTO_INET, state.TableName)
	if err != nil {
		return have, err
	}
	for _, s := range sets {
		if set, ok := s.addresses(); ok && slices.Contains(t.Sets, set) {
			have.kept = append(have.kept, set)
		} else {
			have.others = append(have.others, s.name)
		}
	}
	chains, err := c.chains(unix.NFPROTO_INET, state.TableName)
	for _, ch := range chains {
		have.chains = append(have.chains, ch.name)
	}
	return have, err
}

// replaceRules exchanges the rules and the sets that only they need.
func (c *conn) replaceRules(b *batch, t state.Table) error {
	have, err := c.contents(t)
	if err != nil {
		return err
	}
	if b.counts, err = c.counts(); err != nil {
		return err
	}
	b.flush(state.TableName)
	for _, name := range have.others {
		if t.Engines[name] == nil {
			b.deleteSet(state.TableName, name)
		}
	}
	if slices.Contains(have.chains, state.AccelerateChain) {
		b.deleteChain(unix.NFPROTO_INET, state.TableName, state.AccelerateChain)
	}
	b.deleteValidation(have.chains)
	b.addSets(t, have.kept)
	return b.addRules(t)
}

// addSets adds the zones, and the sets that policies name but for those that
// are there.
func (b *batch) addSets(t state.Table, kept []state.Set) {
	for _, zone := range sortedKeys(t.Zones) {
		b.addDevices(state.TableName, state.ZonePrefix+zone, t.Zones[zone])
	}
	for _, s := range t.Sets {
		if !slices.Contains(kept, s) {
			b.addAddresses(state.TableName, s)
		}
	}
}
