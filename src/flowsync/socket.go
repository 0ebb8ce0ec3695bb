// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// answerSeconds bounds the wait for an answer: the kernel gives it inside
	// of sendto but for a busy rtnl lock.
	answerSeconds = 10
	// answerBuffer holds the answers to one batch.
	answerBuffer = 4 << 20
	// batchBytes bounds one datagram of requests.
	batchBytes = 16 << 10
	// batchRequests bounds the requests of one datagram: their answers must
	// fit into answerBuffer, at a page and more each.
	batchRequests = 256
)

// socket is for questions and orders: the kernel answers them in order.
type socket struct {
	fd          int
	seq         uint32
	buf         []byte // a dump's part is at most 32 KiB (net/netlink/af_netlink.c)
	interrupted bool   // the dump that is under way
}

func dial(protocol int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	limit := unix.Timeval{Sec: answerSeconds}
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, answerBuffer),
		// An error then doesn't carry the whole request back.
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1),
	)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	return &socket{fd: fd, buf: make([]byte, 32<<10)}, nil
}

func (s *socket) close() { unix.Close(s.fd) }

func (s *socket) send(b []byte) error {
	return unix.Sendto(s.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// read returns one datagram, which is valid until the next read.
func (s *socket) read() ([]byte, error) {
	for {
		n, err := unix.Read(s.fd, s.buf)
		if err != unix.EINTR {
			return s.buf[:max(n, 0)], err
		}
	}
}

// errInterrupted: the kernel's table changed during a dump.
var errInterrupted = errors.New("changed while it was read")

// dump asks for all of a kind; restart is called before each try, because what
// an interrupted one has told is worthless.
func (s *socket) dump(typ uint16, header []byte, fill func(*writer), restart func(), each func(typ uint16, body []byte)) error {
	err := errInterrupted
	for range 10 {
		restart()
		if err = s.dumpOnce(typ, header, fill, each); !errors.Is(err, errInterrupted) {
			return err
		}
	}
	return err
}

func (s *socket) dumpOnce(typ uint16, header []byte, fill func(*writer), each func(uint16, []byte)) error {
	err := s.begin(typ, header, fill)
	for more := err == nil; more; {
		more, err = s.part(each)
	}
	return err
}

// begin asks for a dump, to be read with part.
func (s *socket) begin(typ uint16, header []byte, fill func(*writer)) error {
	s.seq++
	s.interrupted = false
	var w writer
	w.open(typ, unix.NLM_F_REQUEST|unix.NLM_F_DUMP, s.seq, header...)
	fill(&w)
	w.close()
	return s.send(w.b)
}

// part reads one datagram of the dump; more is false after the last.
func (s *socket) part(each func(uint16, []byte)) (more bool, err error) {
	b, err := s.read()
	if err != nil {
		return false, err
	}
	for h, body := range messages(b) {
		if h.Seq != s.seq {
			continue
		}
		s.interrupted = s.interrupted || h.Flags&unix.NLM_F_DUMP_INTR != 0
		switch h.Type {
		case unix.NLMSG_ERROR, unix.NLMSG_DONE:
			if err := errnoOf(body); err != nil || !s.interrupted {
				return false, err
			}
			return false, errInterrupted
		}
		each(h.Type, body)
	}
	return true, nil
}

// batch sends n requests in few datagrams. write appends the i-th; done gets
// its answer: a body, or an errno, or neither for an order that was obeyed.
// Each request asks for an answer: it has NLM_F_ACK, or is a question.
func (s *socket) batch(n int, write func(w *writer, i int, seq uint32), done func(i int, body []byte, err error)) error {
	var w writer
	for i := 0; i < n; {
		w.b = w.b[:0]
		first, base := i, s.seq+1
		for ; i < n && len(w.b) < batchBytes && i-first < batchRequests; i++ {
			s.seq++
			write(&w, i, s.seq)
		}
		if err := s.send(w.b); err != nil {
			return err
		}
		if err := s.answers(base, s.seq, func(seq uint32, body []byte, err error) {
			done(first+int(seq-base), body, err)
		}); err != nil {
			return err
		}
	}
	return nil
}

// answers reads until the request last is answered.
func (s *socket) answers(first, last uint32, done func(seq uint32, body []byte, err error)) error {
	for {
		b, err := s.read()
		if err != nil {
			return err
		}
		end := false
		for h, body := range messages(b) {
			if h.Seq-first > last-first {
				continue // of an earlier conversation
			}
			if h.Type == unix.NLMSG_ERROR {
				done(h.Seq, nil, errnoOf(body))
			} else {
				done(h.Seq, body, nil)
			}
			end = end || h.Seq == last
		}
		if end {
			return nil
		}
	}
}

// subscription is a socket that only listens, without a thread of its own.
type subscription struct {
	f    *os.File
	raw  syscall.RawConn
	buf  []byte
	note func(*report, uint16, []byte) // adds a message to what is told
}

// subscribe joins multicast groups of a protocol; buffer is the kernel's, in
// bytes.
func subscribe(protocol, buffer int, note func(*report, uint16, []byte), groups ...int) (*subscription, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer),
	)
	for _, g := range groups {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g))
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), "netlink")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	return &subscription{f: f, raw: raw, buf: make([]byte, 64<<10), note: note}, nil
}

func (s *subscription) close() error { return s.f.Close() }

// maxBurst bounds what receive reads before it returns.
const maxBurst = 256

// watch tells each time that there is something to receive, until the socket
// is closed or done is.
func (s *subscription) watch(ready chan<- struct{}, done <-chan struct{}) {
	for {
		err := s.raw.Read(func(fd uintptr) bool {
			p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(p, 0)
			return err != nil || n > 0
		})
		if err != nil {
			return
		}
		select {
		case ready <- struct{}{}:
		case <-done:
			return
		}
	}
}

// receive reads what is there and does not wait. overrun: the kernel has
// dropped some, and the socket goes on.
func (s *subscription) receive(each func(typ uint16, body []byte)) (overrun bool, err error) {
	var failure error
	err = s.raw.Control(func(fd uintptr) {
		for range maxBurst {
			n, err := unix.Read(int(fd), s.buf)
			switch err {
			case nil:
				for h, body := range messages(s.buf[:n]) {
					each(h.Type, body)
				}
			case unix.EINTR:
			case unix.ENOBUFS:
				overrun = true
			case unix.EAGAIN:
				return
			default:
				failure = err
				return
			}
		}
	})
	return overrun, errors.Join(err, failure)
}
