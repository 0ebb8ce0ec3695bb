// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// What nft calls the types of sets (its src/datatype.h): it prints elements by it.
const (
	addressType4 = 7  // ipv4_addr
	addressType6 = 8  // ipv6_addr
	protocolType = 12 // inet_proto
	serviceType  = 13 // inet_service
	ifnameType   = 41 // ifname
)

// span is a range of keys in network order, both ends included.
type span struct{ first, last []byte }

// join sorts spans and makes one of those that overlap or touch: an interval
// set takes no two such.
func join(spans []span) []span {
	sort.Slice(spans, func(i, j int) bool { return bytes.Compare(spans[i].first, spans[j].first) < 0 })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 {
			end := after(out[n-1].last)
			if end == nil || bytes.Compare(s.first, end) <= 0 {
				if bytes.Compare(s.last, out[n-1].last) > 0 {
					out[n-1].last = s.last
				}
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// after is the key behind k; nil: k is the last one.
func after(k []byte) []byte {
	next := slices.Clone(k)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next
		}
	}
	return nil
}

// spanOf is what a prefix covers.
func spanOf(p netip.Prefix) span {
	first := p.Masked().Addr().AsSlice()
	last := slices.Clone(first)
	for i := p.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	return span{first, last}
}

// address matches a packet's address.
func (m *matcher) address(c state.Match) error {
	family, keyType, offset, size := byte(unix.NFPROTO_IPV4), uint32(addressType4), uint32(12), uint32(4)
	if c.Key == state.KeySaddr6 || c.Key == state.KeyDaddr6 {
		family, keyType, offset, size = unix.NFPROTO_IPV6, addressType6, 8, 16
	}
	if c.Key == state.KeyDaddr4 || c.Key == state.KeyDaddr6 {
		offset += size
	}
	if err := m.needs(family); err != nil {
		return err
	}
	load := &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size}
	if set := c.Set(); set != "" {
		m.exprs = append(m.exprs, load, &expr.Lookup{SourceRegister: 1, SetName: set, Invert: c.Not})
		return nil
	}
	var spans []span
	for _, v := range c.Values {
		p, err := netip.ParsePrefix(v)
		if err != nil || p.Addr().BitLen() != int(size)*8 {
			return fmt.Errorf("%s: no prefix %q", c.Key, v)
		}
		spans = append(spans, spanOf(p))
		if len(c.Values) == 1 && p.Bits() < p.Addr().BitLen() {
			m.prefix(offset, p, c.Not)
			return nil
		}
	}
	m.spans(load, c.Not, keyType, spans)
	return nil
}

// prefix matches one prefix as nft prints it best. All addresses of a family
// are in the shortest.
func (m *matcher) prefix(offset uint32, p netip.Prefix, not bool) {
	op := expr.CmpOpEq
	if not {
		op = expr.CmpOpNeq
	}
	if p.Bits() > 0 || not {
		m.header(offset, net.CIDRMask(p.Bits(), p.Addr().BitLen()), op, p.Masked().Addr().AsSlice())
	}
}

// ports matches a port, at an offset in the TCP or UDP header.
func (m *matcher) ports(c state.Match, offset uint32) error {
	var spans []span
	for _, v := range c.Values {
		first, last, isRange := strings.Cut(v, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil || a > b {
			return fmt.Errorf("%s: no port or range %q", c.Key, v)
		}
		spans = append(spans, span{[]byte{byte(a >> 8), byte(a)}, []byte{byte(b >> 8), byte(b)}})
	}
	m.spans(&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}, c.Not, serviceType, spans)
	return nil
}

func (m *matcher) protocols(c state.Match) error {
	var spans []span
	for _, v := range c.Values {
		p, ok := protocols[v]
		if !ok {
			return fmt.Errorf("unknown protocol %q", v)
		}
		spans = append(spans, span{[]byte{p}, []byte{p}})
	}
	load := &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}
	m.spans(load, c.Not, protocolType, spans)
	return nil
}

// spans matches a key that lies in one of the spans, or in none.
func (m *matcher) spans(load expr.Any, not bool, keyType uint32, spans []span) {
	spans = join(spans)
	m.exprs = append(m.exprs, load)
	cmp := func(op expr.CmpOp, key []byte) { m.exprs = append(m.exprs, &expr.Cmp{Op: op, Register: 1, Data: key}) }
	switch s := spans[0]; {
	case len(spans) > 1 || not && !s.single():
		id := m.b.addSpans(m.table, keyType, spans)
		m.exprs = append(m.exprs, &expr.Lookup{SourceRegister: 1, SetName: setName, SetID: id, Invert: not})
	case not:
		cmp(expr.CmpOpNeq, s.first)
	case s.single():
		cmp(expr.CmpOpEq, s.first)
	default:
		cmp(expr.CmpOpGte, s.first)
		cmp(expr.CmpOpLte, s.last)
	}
}

func (s span) single() bool { return bytes.Equal(s.first, s.last) }
