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

var (
	protocols  = map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP}
	nfFamilies = map[string]byte{"ipv4": unix.NFPROTO_IPV4, "ipv6": unix.NFPROTO_IPV6}
	// directions are enum ip_conntrack_dir.
	directions = map[string]byte{"original": 0, "reply": 1}
)

// matcher turns the matches of one rule into expressions, as nft itself would
// compile them. Sets that they need go into the batch before the rule.
type matcher struct {
	b      *batch
	table  string
	family byte // that the packet is known to have; 0: any
	exprs  []expr.Any
}

func (m *matcher) add(c state.Match) error {
	switch c.Key {
	case state.KeySaddr4, state.KeyDaddr4, state.KeySaddr6, state.KeyDaddr6:
		return m.address(c)
	case state.KeySport:
		return m.ports(c, 0)
	case state.KeyDport:
		return m.ports(c, 2)
	case state.KeyL4Proto:
		return m.protocols(c)
	case state.KeyHelper:
		// Without a helper the load itself ends the rule (nft_ct_get_eval), so any
		// name will do that none has; nft doesn't take back an empty one.
		m.compare(&expr.Ct{Key: expr.CtKeyHELPER, Register: 1}, expr.CmpOpNeq, append([]byte("-"), make([]byte, helperNameLen-1)...))
		return nil
	case state.KeySecpath:
		m.compare(&expr.Meta{Key: metaSecpath, Register: 1}, expr.CmpOpEq, []byte{1})
		return nil
	case state.KeyIPsec:
		m.compare(&expr.Rt{Key: rtXfrm, Register: 1}, expr.CmpOpEq, []byte{1})
		return nil
	case state.KeyWayBack, state.KeyWayBackMarked, state.KeyRoute:
		present := byte(1)
		if c.Not {
			present = 0
		}
		m.compare(&expr.Fib{Register: 1, ResultOIF: true, FlagSADDR: true, FlagIIF: c.Key != state.KeyRoute, FlagPRESENT: true,
			FlagMARK: c.Key == state.KeyWayBackMarked}, expr.CmpOpEq, []byte{present})
		return nil
	}
	if len(c.Values) != 1 {
		return fmt.Errorf("%s takes one value", c.Key)
	}
	return m.single(c, c.Values[0])
}

// single is a match with one value.
func (m *matcher) single(c state.Match, value string) error {
	op := expr.CmpOpEq
	if c.Not {
		op = expr.CmpOpNeq
	}
	switch c.Key {
	case state.KeyIif:
		return m.device(&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, c, op)
	case state.KeyOif:
		return m.device(&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, c, op)
	case state.KeyFamily:
		f, ok := nfFamilies[value]
		if !ok || c.Not {
			return fmt.Errorf("unknown family %q", value)
		}
		return m.needs(f)
	case state.KeyDirection:
		d, ok := directions[value]
		if !ok {
			return fmt.Errorf("unknown direction %q", value)
		}
		m.compare(&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, op, []byte{d})
		return nil
	case state.KeyCtState:
		if value != "established" {
			return fmt.Errorf("unknown state %q", value)
		}
		load := &expr.Ct{Key: expr.CtKeySTATE, Register: 1}
		if c.Not {
			m.compare(load, op, native(expr.CtStateBitESTABLISHED))
		} else {
			m.masked(load, expr.CtStateBitESTABLISHED, expr.CmpOpNeq, 0)
		}
		return nil
	case state.KeyMark:
		return m.mark(&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, value, op)
	case state.KeyCtMark:
		return m.mark(&expr.Ct{Key: expr.CtKeyMARK, Register: 1}, value, op)
	case state.KeyPackets:
		return m.packets(value)
	case state.KeyDSCP4, state.KeyDSCP6:
		return m.dscp(c.Key, value, op)
	}
	return fmt.Errorf("unknown key %q", c.Key)
}

func (m *matcher) compare(load expr.Any, op expr.CmpOp, data []byte) {
	m.exprs = append(m.exprs, load, &expr.Cmp{Op: op, Register: 1, Data: data})
}

// masked compares the bits of mask.
func (m *matcher) masked(load expr.Any, mask uint32, op expr.CmpOp, value uint32) {
	m.exprs = append(m.exprs, load,
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native(mask), Xor: native(0)},
		&expr.Cmp{Op: op, Register: 1, Data: native(value)})
}

func native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// needs makes sure that the packet has a family.
func (m *matcher) needs(family byte) error {
	switch m.family {
	case family:
	case 0:
		m.family = family
		m.compare(&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, expr.CmpOpEq, []byte{family})
	default:
		return fmt.Errorf("no packet is both IPv4 and IPv6")
	}
	return nil
}

// device compares a device's name, or looks it up in a set of the table.
func (m *matcher) device(load expr.Any, c state.Match, op expr.CmpOp) error {
	if set := c.Set(); set != "" {
		m.exprs = append(m.exprs, load, &expr.Lookup{SourceRegister: 1, SetName: set, Invert: c.Not})
		return nil
	}
	name := make([]byte, unix.IFNAMSIZ)
	if len(c.Values[0]) >= len(name) {
		return unix.ENAMETOOLONG
	}
	copy(name, c.Values[0])
	m.compare(load, op, name)
	return nil
}

func (m *matcher) mark(load expr.Any, text string, op expr.CmpOp) error {
	text, maskText, masked := strings.Cut(text, "/")
	value, err := strconv.ParseUint(text, 0, 32)
	if err != nil {
		return err
	}
	if !masked {
		m.compare(load, op, native(uint32(value)))
		return nil
	}
	mask, err := strconv.ParseUint(maskText, 0, 32)
	m.masked(load, uint32(mask), op, uint32(value))
	return err
}

// packets matches as long as the connection has had fewer packets.
func (m *matcher) packets(text string) error {
	n, err := strconv.ParseUint(text, 10, 64)
	m.exprs = append(m.exprs, &expr.Ct{Key: expr.CtKeyPKTS, Register: 1},
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 8, Size: 8},
		&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binary.BigEndian.AppendUint64(nil, n)})
	return err
}

// dscp compares the upper six bits of IPv4's TOS or of IPv6's traffic class,
// which lies across two bytes (RFC 2474 section 3, RFC 8200 section 3).
func (m *matcher) dscp(key state.Key, text string, op expr.CmpOp) error {
	n, err := strconv.ParseUint(text, 10, 6)
	if err != nil {
		return err
	}
	if key == state.KeyDSCP4 {
		err = m.needs(unix.NFPROTO_IPV4)
		m.header(1, []byte{0xfc}, op, []byte{byte(n) << 2})
		return err
	}
	err = m.needs(unix.NFPROTO_IPV6)
	m.header(0, []byte{0x0f, 0xc0}, op, binary.BigEndian.AppendUint16(nil, uint16(n)<<6))
	return err
}

// header compares the bits of mask, at an offset in the IP header.
func (m *matcher) header(offset uint32, mask []byte, op expr.CmpOp, value []byte) {
	n := uint32(len(mask))
	m.exprs = append(m.exprs,
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: n},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: n, Mask: mask, Xor: make([]byte, n)},
		&expr.Cmp{Op: op, Register: 1, Data: value})
}
