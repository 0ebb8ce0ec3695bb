// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"
)

const attrTypeMask = 0x3fff // without NLA_F_NESTED and NLA_F_NET_BYTEORDER

// attrs yields each attribute's type and value; what is malformed ends it.
func attrs(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			n := int(binary.NativeEndian.Uint16(b))
			typ := binary.NativeEndian.Uint16(b[2:]) & attrTypeMask
			if n < unix.SizeofRtAttr || n > len(b) || !yield(typ, b[unix.SizeofRtAttr:n:n]) {
				return
			}
			b = b[min(align(n), len(b)):]
		}
	}
}

// messages yields the netlink messages of one datagram.
func messages(b []byte) iter.Seq2[unix.NlMsghdr, []byte] {
	return func(yield func(unix.NlMsghdr, []byte) bool) {
		for len(b) >= unix.NLMSG_HDRLEN {
			h := unix.NlMsghdr{
				Len:   binary.NativeEndian.Uint32(b),
				Type:  binary.NativeEndian.Uint16(b[4:]),
				Flags: binary.NativeEndian.Uint16(b[6:]),
				Seq:   binary.NativeEndian.Uint32(b[8:]),
			}
			n := int(h.Len)
			if h.Len < unix.NLMSG_HDRLEN || uint64(h.Len) > uint64(len(b)) || !yield(h, b[unix.NLMSG_HDRLEN:n:n]) {
				return
			}
			b = b[min(align(n), len(b)):]
		}
	}
}

// errnoOf is the errno at the start of NLMSG_ERROR and NLMSG_DONE; nil: success.
func errnoOf(body []byte) error {
	if code := int32(u32(body)); code < 0 {
		return unix.Errno(-code)
	}
	return nil
}

// Values in the machine's byte order, and in network order; 0 if too short.

func u8(b []byte) uint8 {
	if len(b) < 1 {
		return 0
	}
	return b[0]
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

func address(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

func mac(b []byte) (m [6]byte) {
	if len(b) == len(m) {
		copy(m[:], b)
	}
	return m
}

// text is a NUL-terminated string.
func text(b []byte) string { return unix.ByteSliceToString(b) }

// writer appends netlink messages to one datagram.
type writer struct {
	b   []byte
	msg int // where the message that is open begins
}

// open begins a message; header is what follows nlmsghdr.
func (w *writer) open(typ, flags uint16, seq uint32, header ...byte) {
	w.msg = len(w.b)
	w.b = append(w.b, 0, 0, 0, 0)
	w.b = binary.NativeEndian.AppendUint16(w.b, typ)
	w.b = binary.NativeEndian.AppendUint16(w.b, flags)
	w.b = binary.NativeEndian.AppendUint32(w.b, seq)
	w.b = append(w.b, 0, 0, 0, 0)
	w.b = append(w.b, header...)
	w.pad()
}

func (w *writer) close() {
	binary.NativeEndian.PutUint32(w.b[w.msg:], uint32(len(w.b)-w.msg))
}

func (w *writer) attr(typ uint16, value ...byte) {
	w.b = binary.NativeEndian.AppendUint16(w.b, uint16(unix.SizeofRtAttr+len(value)))
	w.b = binary.NativeEndian.AppendUint16(w.b, typ)
	w.b = append(w.b, value...)
	w.pad()
}

func (w *writer) u32(typ uint16, v uint32) {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], v)
	w.attr(typ, b[:]...)
}

func (w *writer) be32(typ uint16, v uint32) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	w.attr(typ, b[:]...)
}

func (w *writer) be16(typ, v uint16) {
	w.attr(typ, byte(v>>8), byte(v))
}

func (w *writer) nest(typ uint16, fill func()) {
	at := len(w.b)
	w.attr(typ | unix.NLA_F_NESTED)
	fill()
	binary.NativeEndian.PutUint16(w.b[at:], uint16(len(w.b)-at))
}

func (w *writer) pad() {
	for len(w.b)%unix.NLMSG_ALIGNTO != 0 {
		w.b = append(w.b, 0)
	}
}

func align(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }
