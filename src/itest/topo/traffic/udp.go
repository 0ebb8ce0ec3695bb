// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A UDP packet starts with its number; the pattern at number × payload fills
// the rest. The receiver answers every ackEvery-th packet, and those with the
// flag answerNow, with the header it has seen. That gives the flow its second
// direction and the sender its pace: never more than window packets are on the way.
const (
	header    = 8
	answerNow = 1 << 63
	window    = 128
	ackEvery  = 16
	// An answer that doesn't come is taken for lost after this time.
	ackTimeout = time.Second
	// hello is what the client sends to open the flow when the server sends.
	hello = "hello"
)

func (t Transfer) runUDP(ctx context.Context, m *meter) (sent int64, err error) {
	client, server, err := t.sockets()
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { client.Close(); server.Close() })
	defer func() { stop(); client.Close(); server.Close() }()
	dest := netip.AddrPortFrom(t.Addr, t.Port)
	s, r := &sender{conn: client, dest: dest}, &receiver{conn: server, m: m}
	if !t.Up {
		if dest, err = sayHello(ctx, client, server, dest); err != nil {
			return 0, err
		}
		s, r = &sender{conn: server, dest: dest}, &receiver{conn: client, m: m}
	}
	done := make(chan error, 1)
	go func() { done <- r.run() }()
	packets := (t.Bytes + payload - header - 1) / (payload - header)
	if err := s.send(WarmPackets); err != nil {
		return 0, err
	}
	if err := t.steady(m); err != nil {
		return 0, err
	}
	if err := s.send(WarmPackets + packets); err != nil {
		return 0, err
	}
	r.conn.SetReadDeadline(time.Now()) // the last packet was answered, or given up
	return packets * (payload - header), <-done
}

// sockets opens one in each namespace.
func (t Transfer) sockets() (client, server *net.UDPConn, err error) {
	listen := func(at netip.AddrPort) (conn *net.UDPConn, err error) {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		if err != nil {
			return nil, err
		}
		return conn, enlarge(conn)
	}
	err = t.Server.Inside(func() (err error) {
		server, err = listen(netip.AddrPortFrom(t.Addr, t.Port))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	any := netip.IPv6Unspecified()
	if t.Addr.Is4() {
		any = netip.IPv4Unspecified()
	}
	err = t.Client.Inside(func() (err error) {
		client, err = listen(netip.AddrPortFrom(any, 0))
		return err
	})
	return client, server, err
}

// enlarge gives a socket room for a window of packets, whatever memory the
// driver took for each; net.core.rmem_max would allow too little.
func enlarge(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, window*16<<10)
	})
	return errors.Join(err, os.NewSyscallError("setsockopt SO_RCVBUFFORCE", set))
}

// sayHello tells the server the client's address as the router shows it.
func sayHello(ctx context.Context, client, server *net.UDPConn, dest netip.AddrPort) (from netip.AddrPort, err error) {
	buf := make([]byte, payload)
	for ctx.Err() == nil {
		if _, err := client.WriteToUDPAddrPort([]byte(hello), dest); err != nil {
			return from, err
		}
		server.SetReadDeadline(time.Now().Add(ackTimeout))
		if _, from, err = server.ReadFromUDPAddrPort(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			return from, err
		}
	}
	return from, ctx.Err()
}

type sender struct {
	conn  *net.UDPConn
	dest  netip.AddrPort
	next  int64 // number of the next packet
	acked int64 // packets before this one are not on the way any more
}

// send sends packets up to number end and waits for the last answer.
func (s *sender) send(end int64) error {
	buf := make([]byte, payload)
	for s.next < end {
		number := uint64(s.next)
		if s.next+1 == end {
			number |= answerNow
		}
		binary.BigEndian.PutUint64(buf, number)
		copy(buf[header:], at(s.next*payload, payload-header))
		if _, err := s.conn.WriteToUDPAddrPort(buf, s.dest); err != nil {
			return fmt.Errorf("send packet %d: %w", s.next, err)
		}
		s.next++
		for s.next-s.acked >= window || s.next == end && s.acked < end {
			if err := s.wait(); err != nil {
				return err
			}
		}
	}
	return nil
}

// wait takes one answer; none in time means that what was on the way is lost.
func (s *sender) wait() error {
	var buf [header]byte
	s.conn.SetReadDeadline(time.Now().Add(ackTimeout))
	n, _, err := s.conn.ReadFromUDPAddrPort(buf[:])
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.acked = s.next
	case err != nil:
		return fmt.Errorf("wait for an answer: %w", err)
	case n == header:
		s.acked = max(s.acked, int64(binary.BigEndian.Uint64(buf[:])&^answerNow)+1)
	}
	return nil
}

type receiver struct {
	conn *net.UDPConn
	m    *meter
	got  int64 // packets
}

// run receives until the socket's deadline is set.
func (r *receiver) run() error {
	buf := make([]byte, payload+1)
	for {
		n, from, err := r.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if err := r.packet(buf[:n], from); err != nil {
			return err
		}
	}
}

func (r *receiver) packet(b []byte, from netip.AddrPort) error {
	if len(b) != payload {
		return fmt.Errorf("a packet of %d bytes, want %d", len(b), payload)
	}
	word := binary.BigEndian.Uint64(b)
	number := int64(word &^ answerNow)
	if !bytes.Equal(b[header:], at(number*payload, payload-header)) {
		return fmt.Errorf("wrong bytes in packet %d", number)
	}
	if number >= WarmPackets {
		r.m.count(payload - header)
	}
	if r.got++; r.got%ackEvery == 0 || word&answerNow != 0 {
		_, err := r.conn.WriteToUDPAddrPort(b[:header], from)
		return err
	}
	return nil
}
