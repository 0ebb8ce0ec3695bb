// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/packet"
)

// sample reads the counters of all flows and notes which have packets. While
// they can't be read every flow may have some.
func (s *Sync) sample(now time.Time) {
	err := s.o.Sink.Counters(func(k packet.Key, packets, bytes uint64) {
		f := s.table.keys[k]
		if f == nil {
			return
		}
		i := 0
		if k != f.path.key[0] {
			i = 1
		}
		if f.sample[i].packets != packets {
			f.active = now
		}
		f.sample[i] = count{packets, bytes}
	})
	if err != nil {
		s.log.Warn("no counters of flows", "err", err)
		for _, f := range s.table.keys {
			f.active = now
		}
	}
}

// activity lets idle flows go and keeps the neighbours of the others confirmed.
func (s *Sync) activity(now time.Time) {
	s.sample(now)
	var idle []*flow
	busy := map[neighbourKey]bool{}
	for _, f := range s.table.flows {
		switch {
		case !f.carried:
		case now.Sub(f.active) >= s.o.idleAfter:
			idle = append(idle, f)
		case f.active.Equal(now):
			for _, e := range f.ends {
				for _, u := range e.uses {
					if s.r.world.neighbours[u.neighbour].state == unix.NUD_STALE {
						busy[u.neighbour] = true
					}
				}
			}
		}
	}
	s.later(idle, func(list []*flow) {
		s.release(slices.DeleteFunc(list, func(f *flow) bool { return !f.carried }))
	})
	if err := s.reader.confirm(busy); err != nil {
		s.log.Warn("neighbours may go stale", "err", err)
	}
}

// release sends flows back to the slow path, to be judged again by the rules:
// the bit goes, and the next packet may bring it back.
func (s *Sync) release(list []*flow) {
	for _, f := range list {
		s.drop(f)
	}
	err := s.ct.update(len(list), func(i int) *packet.Tuple { return &list[i].orig },
		func(w *writer, _ int) { clearMark(w, s.o.Mark) },
		func(i int, err error) {
			if !errors.Is(err, unix.ENOENT) {
				s.log.Warn("a connection keeps its mark", "flow", list[i].orig, "err", err)
			}
		})
	if err != nil {
		s.log.Warn("connections keep their mark", "err", err)
	}
}

// confirm makes the kernel ask stale neighbours whether they are there, as it
// does when it sends to them (NTF_USE, neigh_add in net/core/neighbour.c). The
// answer passes their bridge, which learns anew where they are. A permanent
// neighbour isn't asked: when its bridge forgets it, its flows take the slow
// path, by which it is learnt again. NTF_USE for the bridge's entry itself would
// put a host that has just moved back to its old port.
func (r *reader) confirm(stale map[neighbourKey]bool) error {
	keys := make([]neighbourKey, 0, len(stale))
	for k := range stale {
		keys = append(keys, k)
	}
	err := r.rt.batch(len(keys), func(w *writer, i int, seq uint32) {
		k := keys[i]
		var header [ndmsgLen]byte
		header[0] = unix.AF_INET6
		if k.addr.Is4() {
			header[0] = unix.AF_INET
		}
		binary.NativeEndian.PutUint32(header[4:], uint32(k.dev))
		header[10] = unix.NTF_USE
		w.open(unix.RTM_NEWNEIGH, unix.NLM_F_REQUEST|unix.NLM_F_ACK, seq, header[:]...)
		w.attr(unix.NDA_DST, k.addr.AsSlice()...)
		w.close()
	}, func(int, []byte, error) {}) // one that is gone meanwhile is reported
	if err != nil {
		return fmt.Errorf("confirm neighbours: %w", err)
	}
	return nil
}

// keepAlive renews conntrack's timeouts of flows that had packets lately: it
// doesn't see these. Half of the time must be over, so that few are renewed at
// once. UDP of which conntrack saw less than two seconds gets a stream's time so;
// one that engines had no packet of (a question, answered) ends as ever.
func (s *Sync) keepAlive() {
	var list []*flow
	now, full := time.Now(), s.timeouts.read()
	for _, f := range s.table.flows {
		had := f.sample[0].packets+f.sample[1].packets > 0
		if f.carried && had && now.Sub(f.active) < 2*s.o.verifyEvery && f.timeout < full[f.orig.Proto]/2 {
			list = append(list, f)
		}
	}
	s.later(list, func(list []*flow) { s.renew(list, full) })
}

func (s *Sync) renew(list []*flow, seconds map[uint8]uint32) {
	err := s.ct.update(len(list), func(i int) *packet.Tuple { return &list[i].orig },
		func(w *writer, i int) { w.be32(ctaTimeout, seconds[list[i].orig.Proto]) },
		func(i int, err error) {
			if !errors.Is(err, unix.ENOENT) {
				s.log.Warn("a connection's timeout is not kept up", "flow", list[i].orig, "err", err)
			}
		})
	if err != nil {
		s.log.Warn("timeouts of connections are not kept up", "err", err)
	}
}

// timeouts reads what conntrack gives to established connections. The files
// are those of the namespace in which they were opened.
type timeouts struct{ tcp, udp *os.File }

func openTimeouts() (*timeouts, error) {
	const dir = "/proc/sys/net/netfilter/nf_conntrack_"
	tcp, err := os.Open(dir + "tcp_timeout_established")
	if err != nil {
		return nil, fmt.Errorf("conntrack's timeouts: %w", err)
	}
	udp, err := os.Open(dir + "udp_timeout_stream")
	if err != nil {
		tcp.Close()
		return nil, fmt.Errorf("conntrack's timeouts: %w", err)
	}
	return &timeouts{tcp, udp}, nil
}

// read gives seconds by protocol; 0 where the kernel doesn't tell.
func (t *timeouts) read() map[uint8]uint32 {
	seconds := map[uint8]uint32{}
	for proto, f := range map[uint8]*os.File{packet.TCP: t.tcp, packet.UDP: t.udp} {
		b := make([]byte, 16)
		n, _ := f.ReadAt(b, 0)
		v, err := strconv.ParseUint(strings.TrimSpace(string(b[:n])), 10, 32)
		if err == nil {
			seconds[proto] = uint32(v)
		}
	}
	return seconds
}

func (t *timeouts) close() {
	t.tcp.Close()
	t.udp.Close()
}
