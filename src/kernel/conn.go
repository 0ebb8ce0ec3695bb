// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// conn is one netlink socket for one conversation, so that nothing of an
// earlier one can be left in it.
type conn struct {
	fd    int
	seq   uint32
	buf   []byte // a dump's part is at most 32 KiB (net/netlink/af_netlink.c)
	fault func(call string) error
}

// answerSeconds bounds every wait for the kernel: it answers inside of sendto
// but for a busy rtnl lock.
const answerSeconds = 10

func dial(protocol int, fault func(string) error) (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	c := &conn{fd: fd, buf: make([]byte, 32<<10), fault: fault}
	limit := unix.Timeval{Sec: answerSeconds}
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		// An error then doesn't carry the whole request back.
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1),
	)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	return c, nil
}

func (c *conn) close() { unix.Close(c.fd) }

// request is one message that asks for something.
type request struct {
	call   string // in words, for errors and for the tests' faults
	typ    uint16
	dump   bool
	header []byte // after nlmsghdr: nfgenmsg or genlmsghdr
	attrs  func(*writer)
}

// ask sends r and hands each answer's header and attributes to each, in the
// kernel's order. A dump that raced with a change gives errInterrupted; what
// each has seen is then worthless.
func (c *conn) ask(r request, each func(body []byte)) error {
	return c.askSome(r, func(body []byte) error {
		if each != nil {
			each(body)
		}
		return nil
	})
}

// askSome is ask until each gives an error. The rest of the answer is then
// still to come: nothing else can be asked.
func (c *conn) askSome(r request, each func(body []byte) error) error {
	if err := c.inject(r.call); err != nil {
		return err
	}
	var flags uint16 = unix.NLM_F_REQUEST | unix.NLM_F_ACK
	if r.dump {
		flags = unix.NLM_F_REQUEST | unix.NLM_F_DUMP
	}
	c.seq++
	var w writer
	w.open(r.typ, flags, c.seq, r.header...)
	if r.attrs != nil {
		r.attrs(&w)
	}
	w.close()
	if err := c.send(w.b); err != nil {
		return err
	}
	interrupted := false
	err := c.receive(func(h unix.NlMsghdr, body []byte) (done bool, err error) {
		if h.Seq != c.seq {
			return false, nil
		}
		interrupted = interrupted || h.Flags&unix.NLM_F_DUMP_INTR != 0
		switch h.Type {
		case unix.NLMSG_ERROR, unix.NLMSG_DONE:
			return true, errnoOf(body)
		case unix.NLMSG_NOOP, unix.NLMSG_OVERRUN:
			return false, nil
		}
		return false, each(body)
	})
	if err == nil && interrupted {
		return errInterrupted
	}
	return err
}

// steady reads again while the kernel says that its tables changed meanwhile.
func steady(read func() error) error {
	var err error
	for range 10 {
		if err = read(); !errors.Is(err, errInterrupted) {
			return err
		}
	}
	return err
}

func (c *conn) inject(call string) error {
	if c.fault == nil {
		return nil
	}
	return c.fault(call)
}

// smallSend is less than any send buffer (net.core.wmem_default).
const smallSend = 64 << 10

// send sends b as a whole, for which the send buffer has to be large enough.
func (c *conn) send(b []byte) error {
	if len(b) > smallSend {
		if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, len(b)); err != nil {
			return fmt.Errorf("send buffer of %d bytes: %w", len(b), err)
		}
	}
	return unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// receive hands every message to handle until it says done.
func (c *conn) receive(handle func(h unix.NlMsghdr, body []byte) (done bool, err error)) error {
	for {
		n, err := unix.Read(c.fd, c.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		for b := c.buf[:n]; len(b) >= unix.NLMSG_HDRLEN; {
			h, body, rest := split(b)
			if body == nil {
				break
			}
			if done, err := handle(h, body); done || err != nil {
				return err
			}
			b = rest
		}
	}
}

// split takes the first message off b; body is nil when it is truncated.
func split(b []byte) (h unix.NlMsghdr, body, rest []byte) {
	h = unix.NlMsghdr{
		Len:   binary.NativeEndian.Uint32(b),
		Type:  binary.NativeEndian.Uint16(b[4:]),
		Flags: binary.NativeEndian.Uint16(b[6:]),
		Seq:   binary.NativeEndian.Uint32(b[8:]),
	}
	if h.Len < unix.NLMSG_HDRLEN || uint64(h.Len) > uint64(len(b)) {
		return h, nil, nil
	}
	n := int(h.Len)
	return h, b[unix.NLMSG_HDRLEN:n:n], b[min(align(n), len(b)):]
}

// errnoOf is the errno at the start of NLMSG_ERROR and NLMSG_DONE.
func errnoOf(body []byte) error {
	if code := int32(u32(body)); code < 0 {
		return unix.Errno(-code)
	}
	return nil
}
