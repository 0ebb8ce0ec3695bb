// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fastpath/src/state"
	"github.com/google/nftables/expr"
)

// addRules appends the rules of a table to chain forward and, behind the first
// one that sends everything there, to AccelerateChain; and its validation.
func (b *batch) addRules(t state.Table) error {
	if err := b.addValidation(t.Validation); err != nil {
		return err
	}
	chain := forwardChain(state.TableName)
	if slices.ContainsFunc(t.Rules, func(r state.Rule) bool { return r.Verdict == state.Accelerate }) {
		b.addPlainChain(chain.table, state.AccelerateChain)
	}
	for _, r := range t.Rules {
		if err := b.addStateRule(chain, r, t.Generation); err != nil {
			return fmt.Errorf("rule %q: %w", r, err)
		}
		if r.Verdict == state.Accelerate && r.All() {
			chain.name = state.AccelerateChain
		}
	}
	return nil
}

// addStateRule appends one. Its comment is its identity: by that it is known again.
func (b *batch) addStateRule(chain chainSpec, r state.Rule, generation string) error {
	m := matcher{b: b, table: chain.table}
	for _, match := range r.Matches {
		if err := m.add(match); err != nil {
			return err
		}
	}
	if r.Counts || r.Verdict == state.Count {
		before := b.counts[r.Identity()]
		m.exprs = append(m.exprs, &expr.Counter{Packets: before.packets, Bytes: before.bytes})
	}
	verdict, err := verdictOf(r.Verdict)
	if err != nil {
		return err
	}
	_, err = b.addRule(chain, append(m.exprs, verdict...), comment(r, generation))
	return err
}

func verdictOf(v state.Verdict) ([]expr.Any, error) {
	switch v {
	case state.Count:
		return nil, nil // nothing but that
	case state.Return:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}, nil
	case state.Deny:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}, nil
	case state.Accelerate:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: state.AccelerateChain}}, nil
	case state.Add:
		return []expr.Any{&expr.FlowOffload{Name: state.FlowtableName}}, nil
	}
	bit, ok := markBit(v)
	if !ok {
		return nil, fmt.Errorf("unknown verdict %q", v)
	}
	return append(setMark(bit), &expr.Verdict{Kind: expr.VerdictReturn}), nil
}

// setMark sets a bit of the connection's mark. The kernel tells of it only if
// the bit wasn't set before (nft_ct_set_eval).
func setMark(bit uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native(^bit), Xor: native(bit)},
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1, SourceRegister: true},
	}
}

// markBit is the reverse of state.Mark.
func markBit(v state.Verdict) (bit uint32, ok bool) {
	digits, _ := strings.CutPrefix(string(v), state.MarkPrefix)
	digits, _ = strings.CutSuffix(digits, " "+string(state.Return))
	n, err := strconv.ParseUint(digits, 16, 32)
	return uint32(n), err == nil && state.Mark(uint32(n)) == v
}
