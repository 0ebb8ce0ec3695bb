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
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/testkit"
)

// Stream is one UDP flow with packets both ways at a steady rate, whatever
// happens to them. It shows for how long a fault stops it.
type Stream struct {
	Client, Server *testkit.Netns
	Addr           netip.Addr // the server's
	Port           uint16     // the server's
	Rate           int        // packets a second, each way
	Size           int        // payload of a packet; its number takes the first 8 bytes
}

// Seen is what one direction carried while it was measured.
type Seen struct {
	Received int64         // packets
	Gap      time.Duration // longest time without a packet at the receiver
}

// Streaming is a Stream that goes on until End.
type Streaming struct {
	Up, Down *Direction

	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex
	errs    []error
}

// Direction is the receiver's side of one direction.
type Direction struct {
	m       meter
	packets atomic.Int64
}

// Packets is how many have come so far.
func (d *Direction) Packets() int64 { return d.packets.Load() }

// Start opens the sockets and lets both sides send. The server sends to where
// the newest packet came from, as NAT may change that.
func (s Stream) Start(ctx context.Context) (*Streaming, error) {
	client, server, err := Transfer{Client: s.Client, Server: s.Server, Addr: s.Addr, Port: s.Port}.sockets()
	if err != nil {
		return nil, err
	}
	if s.Addr.Is4() { // a router whose MTU is lowered shall divide packets, not only complain
		err = errors.Join(allowFragments(client), allowFragments(server))
	}
	if err != nil {
		return nil, errors.Join(err, client.Close(), server.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &Streaming{Up: &Direction{}, Down: &Direction{}, cancel: cancel}
	var peer atomic.Pointer[netip.AddrPort] // of the client, as the server sees it
	dest := netip.AddrPortFrom(s.Addr, s.Port)
	r.running.Go(func() { s.send(ctx, client, func() *netip.AddrPort { return &dest }) })
	r.running.Go(func() { s.send(ctx, server, peer.Load) })
	r.running.Go(func() { r.fail(s.receive(server, r.Up, peer.Store)) })
	r.running.Go(func() { r.fail(s.receive(client, r.Down, func(*netip.AddrPort) {})) })
	context.AfterFunc(ctx, func() { // the receivers end
		client.SetReadDeadline(time.Now())
		server.SetReadDeadline(time.Now())
	})
	r.running.Go(func() {
		<-ctx.Done()
		r.Up.m.count(0) // a gap that is still open counts
		r.Down.m.count(0)
	})
	return r, nil
}

// Begin begins to measure, anew.
func (r *Streaming) Begin() {
	for _, d := range []*Direction{r.Up, r.Down} {
		d.m.mu.Lock()
		d.m.received, d.m.gap = 0, 0
		d.m.mu.Unlock()
		d.m.begin()
	}
}

// End ends the stream. A packet with wrong bytes is an error; lost ones aren't.
func (r *Streaming) End() (up, down Seen, err error) {
	r.cancel()
	r.running.Wait()
	return r.Up.seen(), r.Down.seen(), errors.Join(r.errs...)
}

// Seen is what was carried since Begin; a gap that is still open counts.
func (d *Direction) Seen() Seen {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	return Seen{Received: d.m.received, Gap: max(d.m.gap, time.Since(d.m.last))}
}

func (d *Direction) seen() Seen {
	result := d.m.result(0)
	return Seen{Received: result.Received, Gap: result.Gap}
}

func (r *Streaming) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// send sends what is due each millisecond. A packet that the network refuses
// is as lost as one that it drops.
func (s Stream) send(ctx context.Context, conn *net.UDPConn, dest func() *netip.AddrPort) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	buf := make([]byte, s.Size)
	start, number := time.Now(), int64(0)
	for {
		select {
		case <-ctx.Done():
			conn.SetDeadline(time.Now())
			return
		case <-tick.C:
		}
		for due := int64(time.Since(start).Seconds() * float64(s.Rate)); number < due; number++ {
			if to := dest(); to != nil {
				binary.BigEndian.PutUint64(buf, uint64(number))
				copy(buf[header:], at(number*int64(s.Size), s.Size-header))
				_, _ = conn.WriteToUDPAddrPort(buf, *to)
			}
		}
	}
}

// receive checks each packet until the socket's deadline is set.
func (s Stream) receive(conn *net.UDPConn, d *Direction, from func(*netip.AddrPort)) error {
	defer conn.Close()
	buf := make([]byte, s.Size+1)
	for {
		n, peer, err := conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if n != s.Size {
			return fmt.Errorf("a packet of %d bytes, want %d", n, s.Size)
		}
		number := int64(binary.BigEndian.Uint64(buf))
		if number < 0 || !bytes.Equal(buf[header:n], at(number*int64(s.Size), s.Size-header)) {
			return fmt.Errorf("wrong bytes in packet %d", number)
		}
		from(&peer)
		d.packets.Add(1)
		d.m.count(1)
	}
}

func allowFragments(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
	})
	return errors.Join(err, os.NewSyscallError("setsockopt IP_MTU_DISCOVER", set))
}
