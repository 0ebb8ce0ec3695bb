// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"iter"

	"golang.org/x/sys/unix"
)

// writer lays out netlink messages one after the other: headers in the CPU's
// byte order (include/uapi/linux/netlink.h), netfilter's integers in network
// order (include/uapi/linux/netfilter/nfnetlink.h).
type writer struct {
	b     []byte
	start int // of the message that is being written
}

// open begins a message; header is what follows nlmsghdr, already padded.
func (w *writer) open(typ, flags uint16, seq uint32, header ...byte) {
	w.start = len(w.b)
	w.b = binary.NativeEndian.AppendUint32(w.b, 0) // length: close writes it
	w.b = binary.NativeEndian.AppendUint16(w.b, typ)
	w.b = binary.NativeEndian.AppendUint16(w.b, flags)
	w.b = binary.NativeEndian.AppendUint32(w.b, seq)
	w.b = binary.NativeEndian.AppendUint32(w.b, 0) // port: the kernel's
	w.b = append(w.b, header...)
}

func (w *writer) close() {
	binary.NativeEndian.PutUint32(w.b[w.start:], uint32(len(w.b)-w.start))
}

func (w *writer) attr(typ uint16, data []byte) {
	w.b = binary.NativeEndian.AppendUint16(w.b, uint16(unix.NLA_HDRLEN+len(data)))
	w.b = binary.NativeEndian.AppendUint16(w.b, typ)
	w.b = append(w.b, data...)
	w.pad()
}

func (w *writer) pad() {
	for len(w.b)%unix.NLA_ALIGNTO != 0 {
		w.b = append(w.b, 0)
	}
}

// str is a NUL-terminated string.
func (w *writer) str(typ uint16, s string) { w.attr(typ, append([]byte(s), 0)) }

// be32 is an integer of netfilter's, u32 one of everybody else's.
func (w *writer) be32(typ uint16, v uint32) { w.attr(typ, binary.BigEndian.AppendUint32(nil, v)) }
func (w *writer) u32(typ uint16, v uint32)  { w.attr(typ, binary.NativeEndian.AppendUint32(nil, v)) }

// nest writes an attribute that holds what inner writes.
func (w *writer) nest(typ uint16, inner func()) {
	at := len(w.b)
	w.b = append(w.b, 0, 0, 0, 0)
	inner()
	binary.NativeEndian.PutUint16(w.b[at:], uint16(len(w.b)-at))
	binary.NativeEndian.PutUint16(w.b[at+2:], typ|unix.NLA_F_NESTED)
}

// typeMask takes NLA_F_NESTED and NLA_F_NET_BYTEORDER off an attribute type.
const typeMask = ^uint16(unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)

// attrs walks attributes. A truncated one ends the walk: the kernel doesn't
// send any, and a reader can't do better than to ignore it.
func attrs(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.NLA_HDRLEN {
			n := int(binary.NativeEndian.Uint16(b))
			if n < unix.NLA_HDRLEN || n > len(b) {
				return
			}
			typ := binary.NativeEndian.Uint16(b[2:]) & typeMask
			if !yield(typ, b[unix.NLA_HDRLEN:n]) {
				return
			}
			b = b[min(align(n), len(b)):]
		}
	}
}

func align(n int) int { return (n + unix.NLA_ALIGNTO - 1) &^ (unix.NLA_ALIGNTO - 1) }

// text is a string attribute without its NUL.
func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// be16, be32, be64, u16, u32 and u64 read integers; what is too short is 0.
func be16(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(b)
}

func be32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func be64(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func u16(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return binary.NativeEndian.Uint16(b)
}

func u32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

func u64(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.NativeEndian.Uint64(b)
}

// nfHeaderLen is the size of struct nfgenmsg and of struct genlmsghdr alike.
const nfHeaderLen = 4

// attrsOf walks the attributes of a netfilter or generic netlink message.
func attrsOf(body []byte) iter.Seq2[uint16, []byte] {
	return attrs(body[min(nfHeaderLen, len(body)):])
}
