// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// Keys that google/nftables has no names for (include/uapi/linux/netfilter/nf_tables.h).
const (
	metaSecpath = expr.MetaKey(25) // NFT_META_SECPATH
	rtXfrm      = expr.RtKey(4)    // NFT_RT_XFRM
)

const helperNameLen = 16 // NF_CT_HELPER_NAME_LEN

var protocols = map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP}

// addRules appends the rules of a table to its chain forward. Each rule's
// comment is its text: by that it is known again.
func (b *batch) addRules(t state.Table) error {
	chain := forwardChain(state.TableName)
	for i, r := range t.Rules {
		exprs, set, err := matchOf(r, uint32(i+1))
		if err != nil {
			return fmt.Errorf("rule %q: %w", r, err)
		}
		if set != nil {
			b.addProtocols(chain.table, uint32(i+1), set)
		}
		verdict, err := verdictOf(r.Verdict)
		if err != nil {
			return fmt.Errorf("rule %q: %w", r, err)
		}
		if _, err := b.addRule(chain, append(exprs, verdict...), comment(r, t.Generation)); err != nil {
			return err
		}
	}
	return nil
}

// matchOf is r's match as nft itself would compile it. A match on several
// protocols also gives their set, which goes by the number id.
func matchOf(r state.Rule, id uint32) (match []expr.Any, set []byte, err error) {
	op := expr.CmpOpEq
	if r.Not {
		op = expr.CmpOpNeq
	}
	switch r.Key {
	case state.KeyAny:
		return nil, nil, nil
	case state.KeyL4Proto:
		load := &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}
		if set, err = protocolSet(r.Value); err != nil {
			return nil, nil, err
		}
		if len(set) == 1 {
			return compare(load, op, set), nil, nil
		}
		return []expr.Any{load, &expr.Lookup{SourceRegister: 1, SetName: setName, SetID: id, Invert: r.Not}}, set, nil
	case state.KeyIif, state.KeyOif:
		key := expr.MetaKeyIIFNAME
		if r.Key == state.KeyOif {
			key = expr.MetaKeyOIFNAME
		}
		name := make([]byte, unix.IFNAMSIZ)
		if len(r.Value) >= len(name) {
			return nil, nil, unix.ENAMETOOLONG
		}
		copy(name, r.Value)
		return compare(&expr.Meta{Key: key, Register: 1}, op, name), nil, nil
	case state.KeyEngine:
		// The sets are the table's own, so they are found by their names.
		return []expr.Any{
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Lookup{SourceRegister: 1, SetName: r.Value},
			&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, &expr.Lookup{SourceRegister: 1, SetName: r.Value},
		}, nil, nil
	case state.KeySecpath:
		return compare(&expr.Meta{Key: metaSecpath, Register: 1}, expr.CmpOpEq, []byte{1}), nil, nil
	case state.KeyIPsec:
		return compare(&expr.Rt{Key: rtXfrm, Register: 1}, expr.CmpOpEq, []byte{1}), nil, nil
	case state.KeyHelper:
		// Without a helper the load itself ends the rule (nft_ct_get_eval), so any
		// name will do that none has; nft doesn't take back an empty one.
		load := &expr.Ct{Key: expr.CtKeyHELPER, Register: 1}
		return compare(load, expr.CmpOpNeq, append([]byte("-"), make([]byte, helperNameLen-1)...)), nil, nil
	}
	match, err = numberMatch(r, op)
	return match, nil, err
}

// numberMatch is a match on a mark or on the connection's state.
func numberMatch(r state.Rule, op expr.CmpOp) ([]expr.Any, error) {
	if r.Key == state.KeyCtState {
		if r.Value != "established" {
			return nil, fmt.Errorf("unknown state %q", r.Value)
		}
		load := &expr.Ct{Key: expr.CtKeySTATE, Register: 1}
		if r.Not {
			return compare(load, op, native(expr.CtStateBitESTABLISHED)), nil
		}
		return masked(load, expr.CtStateBitESTABLISHED), nil
	}
	v, err := strconv.ParseUint(r.Value, 0, 32)
	if err != nil {
		return nil, err
	}
	switch r.Key {
	case state.KeyMark:
		return compare(&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, op, native(uint32(v))), nil
	case state.KeyCtMark:
		return masked(&expr.Ct{Key: expr.CtKeyMARK, Register: 1}, uint32(v)), nil
	}
	return nil, fmt.Errorf("unknown key %q", r.Key)
}

func compare(load expr.Any, op expr.CmpOp, data []byte) []expr.Any {
	return []expr.Any{load, &expr.Cmp{Op: op, Register: 1, Data: data}}
}

// masked matches where a bit of mask is set.
func masked(load expr.Any, mask uint32) []expr.Any {
	return []expr.Any{load,
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native(mask), Xor: native(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: native(0)}}
}

func native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// protocolSet reads "tcp" or "{ tcp, udp }".
func protocolSet(value string) ([]byte, error) {
	names := strings.TrimSuffix(strings.TrimPrefix(value, "{"), "}")
	var set []byte
	for name := range strings.SplitSeq(names, ",") {
		p, ok := protocols[strings.TrimSpace(name)]
		if !ok {
			return nil, fmt.Errorf("unknown protocol %q", name)
		}
		set = append(set, p)
	}
	return set, nil
}

func verdictOf(v state.Verdict) ([]expr.Any, error) {
	switch v {
	case state.Count:
		return []expr.Any{&expr.Counter{}}, nil
	case state.Return:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}, nil
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
