// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/packet"
	"fastpath/src/state"
)

// Options are what New needs.
type Options struct {
	Mark     uint32 // the ct mark bit of the connections to take
	Sink     Sink   // it is called also while SetPorts, Flows and Flush run, so it must not wait for their caller
	MaxFlows int    // connections; 0: as many as the Sink has room for
	Log      *slog.Logger

	// Tests are impatient; 0: ours.
	conntrackBuffer, rtnetlinkBuffer int // of the kernel's for us, bytes
	verifyEvery, idleAfter           time.Duration
}

const (
	conntrackBuffer = 8 << 20
	rtnetlinkBuffer = 2 << 20

	// verifyEvery is how often everything is read anew, also without events.
	verifyEvery = 10 * time.Second
	// idleAfter is how long a flow may have no packets before it leaves the
	// engines: well before conntrack forgets it (UDP: after 120 s).
	idleAfter = 30 * time.Second
	// settle is how long changes are collected before the world is read anew:
	// one command of the owner gives several.
	settle = 3 * time.Millisecond
	// retry is the wait after the kernel's tables could not be read.
	retry = time.Second
	// chunk is how many flows are worked on before events are looked at again.
	chunk = 256
)

// Sync keeps the Sink as the kernel is. All that is below log belongs to Run's
// goroutine.
type Sync struct {
	o    Options
	call chan func()
	done chan struct{} // closed when Run has ended
	log  *slog.Logger

	ct            conntrack // for orders and questions
	dumper        conntrack // for dumps, which are read part by part
	reader        *reader
	timeouts      *timeouts
	subscriptions []*subscription

	table     table
	dropped   []state.DropSet // see SetDrop
	r         *resolver
	unknown   []packet.Tuple  // connections to be read
	urgent    []*flow         // to be judged first
	queue     []*flow         // to be judged
	chores    []chore         // other work on flows
	dumping   bool            // conntrack is being read
	redump    bool            // it has to be read again after that
	heard     map[uint32]bool // ids of connections that events told of meanwhile
	round     uint64          // of judge
	results   []resolution    // resolveAll's
	again     look            // what has to be read again
	timer     *time.Timer     // for that
	due       time.Time       // when timer fires; zero: it won't
	notBefore time.Time       // no earlier
	deaf      error           // events can't be read
	stats     Stats
}

// New opens the sockets, in the calling thread's network namespace.
func New(o Options) (_ *Sync, err error) {
	o.conntrackBuffer = cmp.Or(o.conntrackBuffer, conntrackBuffer)
	o.rtnetlinkBuffer = cmp.Or(o.rtnetlinkBuffer, rtnetlinkBuffer)
	o.verifyEvery, o.idleAfter = cmp.Or(o.verifyEvery, verifyEvery), cmp.Or(o.idleAfter, idleAfter)
	s := &Sync{o: o, log: o.Log, call: make(chan func()), done: make(chan struct{}), timer: time.NewTimer(time.Hour), heard: map[uint32]bool{}}
	s.timer.Stop()
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.ct, err = dialConntrack(); err != nil {
		return nil, err
	}
	if s.dumper, err = dialConntrack(); err != nil {
		return nil, err
	}
	if s.reader, err = newReader(); err != nil {
		return nil, err
	}
	if s.timeouts, err = openTimeouts(); err != nil {
		return nil, err
	}
	for _, g := range []struct {
		protocol, buffer int
		groups           []int
		note             func(*report, uint16, []byte)
	}{
		{unix.NETLINK_NETFILTER, o.conntrackBuffer, []int{groupUpdate, groupDestroy}, noteConnection},
		{unix.NETLINK_ROUTE, o.rtnetlinkBuffer, rtnetlinkGroups, noteChange},
		{unix.NETLINK_XFRM, o.rtnetlinkBuffer, []int{xfrmGroup}, notePolicy},
	} {
		if g.protocol == unix.NETLINK_XFRM && s.reader.xfrm == nil {
			continue
		}
		sub, err := subscribe(g.protocol, g.buffer, g.note, g.groups...)
		if err != nil {
			return nil, err
		}
		s.subscriptions = append(s.subscriptions, sub)
	}
	s.table = newTable()
	s.r = newResolver(o.Mark, nil, newWorld(), newTunnels())
	return s, nil
}

func (s *Sync) close() {
	for _, ct := range []conntrack{s.ct, s.dumper} {
		if ct.socket != nil {
			ct.close()
		}
	}
	if s.reader != nil {
		s.reader.close()
	}
	if s.timeouts != nil {
		s.timeouts.close()
	}
	for _, sub := range s.subscriptions {
		sub.close()
	}
}

// Run works until ctx ends; then every flow is deleted from the Sink and the
// bits are cleared. The other methods wait for it.
func (s *Sync) Run(ctx context.Context) error {
	defer func() {
		s.close()
		close(s.done)
	}()
	ready := make(chan struct{})
	for _, sub := range s.subscriptions {
		go sub.watch(ready, s.done)
	}
	s.want(look{world: true, routes: true, connections: true}, 0)
	err := s.loop(ctx, ready)
	return errors.Join(err, s.leave())
}

func (s *Sync) loop(ctx context.Context, ready <-chan struct{}) error {
	tick := time.NewTicker(s.o.verifyEvery)
	defer tick.Stop()
	busy := make(chan struct{})
	close(busy)
	for {
		var work <-chan struct{}
		if s.working() {
			work = busy
		}
		select {
		case <-ctx.Done():
			return nil
		case f := <-s.call:
			f()
		case <-ready:
			s.hear()
		case <-s.timer.C:
			s.lookAgain()
		case <-tick.C:
			if len(s.r.ports) > 0 { // else there is nothing to verify
				s.want(look{world: true, routes: true, connections: true, activity: true}, 0)
			}
		case <-work:
			s.work()
		}
		if s.deaf != nil {
			return fmt.Errorf("kernel events: %w", s.deaf)
		}
	}
}

// leave takes everything out of the Sink and clears the bits.
func (s *Sync) leave() error {
	for _, f := range s.table.flows {
		s.remove(f)
	}
	return errors.Join(s.r.tunnels.keep(s.o.Sink, nil), s.ct.unmark(s.o.Mark))
}

// do runs f in Run's goroutine; it doesn't once Run has ended.
func (s *Sync) do(f func()) {
	ran := make(chan struct{})
	select {
	case s.call <- func() { f(); close(ran) }:
		<-ran
	case <-s.done:
	}
}
