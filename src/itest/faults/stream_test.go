// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	"fastpath/src/itest/engine"
)

// interval between the packets of a stream: 1,000 a second.
const interval = time.Millisecond

// form is what a stream's frames must look like at a sink.
type form struct {
	at    *wire
	frame engine.Frame // ID and Payload are the stream's
	mtu   int          // the packet comes in fragments for it; 0: whole
}

// stream is one direction of a UDP flow. Its payload holds the stream's number,
// the packet's number and a pattern, so that a frame is known again however
// wrong it is, and every byte of it can be checked.
type stream struct {
	name string
	size int // of the payload

	mu    sync.Mutex
	from  *wire
	frame engine.Frame
	old   []engine.Frame // what frame was before
	want  []form         // the last one is right; those before were, until a fault
	sent  []time.Time    // by packet number
	good  []arrival
	seen  map[uint64]bool
	since uint64 // the first right packet in the last form; later ones must not have an older form
	stale int    // in an older form, before that
	lost  int    // at another wire in the last form, or as it was sent: a bridge floods
	wrong []string

	stop    chan struct{}
	running sync.WaitGroup
}

type arrival struct {
	at     time.Time
	number uint64
}

const (
	noPacket   = ^uint64(0)
	headerSize = 16 // stream and packet number
)

// newStream makes a stream that frames from a wire would be.
func newStream(name string, size int, from *wire, frame engine.Frame, want form) *stream {
	return &stream{name: name, size: size, from: from, frame: frame, want: []form{want},
		seen: map[uint64]bool{}, since: noPacket, stop: make(chan struct{})}
}

// payload of packet n.
func (s *stream) payload(n uint64) []byte {
	b := make([]byte, s.size)
	copy(b, s.magic())
	binary.BigEndian.PutUint64(b[8:], n)
	for i := headerSize; i < len(b); i++ {
		b[i] = byte(n>>(i%3*8)) ^ byte(i*7)
	}
	return b
}

func (s *stream) magic() []byte { return []byte(fmt.Sprintf("%-8.8s", "\xf5"+s.name)) }

func (s *stream) bytes(f engine.Frame, n uint64) []byte {
	f.ID, f.Payload = uint16(n), s.payload(n)
	return f.Bytes()
}

// matches says whether b is packet n in a form: the whole, or its first fragment.
func (s *stream) matches(b []byte, f form, n uint64) bool {
	want := s.bytes(f.frame, n)
	if f.mtu > 0 {
		want = fragments(want, f.mtu)[0]
	}
	return bytes.Equal(b, want)
}

// start sends until halt. A sender that was held up goes on at its pace; it
// does not make up for what it missed.
func (s *stream) start(t testing.TB) {
	s.running.Go(func() {
		for next := time.Now(); ; next = next.Add(interval) {
			if late := time.Since(next); late > 5*interval {
				next = time.Now()
			} else if late < 0 {
				time.Sleep(-late)
			}
			select {
			case <-s.stop:
				return
			default:
				s.send()
			}
		}
	})
	t.Cleanup(s.halt)
}

func (s *stream) send() {
	s.mu.Lock()
	from, n := s.from, uint64(len(s.sent))
	b := s.bytes(s.frame, n)
	s.sent = append(s.sent, time.Now())
	s.mu.Unlock()
	from.send(b)
}

func (s *stream) halt() {
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.running.Wait()
}

// source makes the packets from now on come from another wire or look another way.
func (s *stream) source(from *wire, frame engine.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old = append(s.old, s.frame)
	s.from, s.frame = from, frame
}

// expect makes f the right form from now on. A packet of an older form may
// still be on its way, or be sent by who doesn't know yet; but not after the
// first one in the new form.
func (s *stream) expect(f form) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want = append(s.want, f)
	s.since = noPacket
}

// take is the tap of all wires.
func (s *stream) take(w *wire, at time.Time, b []byte) {
	i := bytes.Index(b, s.magic())
	if i < 0 || isICMP(b) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b) < i+headerSize {
		s.fault(w, "cut off", b)
		return
	}
	n := binary.BigEndian.Uint64(b[i+8:])
	if n >= uint64(len(s.sent)) {
		s.fault(w, "never sent", b)
		return
	}
	for k := len(s.want) - 1; k >= 0; k-- {
		if s.matches(b, s.want[k], n) {
			s.right(w, at, b, n, k)
			return
		}
	}
	for _, f := range append(s.old[:len(s.old):len(s.old)], s.frame) {
		if bytes.Equal(b, s.bytes(f, n)) {
			s.lost++
			return
		}
	}
	s.fault(w, "not as it must be", b)
}

// right files packet n, which came in form k at w.
func (s *stream) right(w *wire, at time.Time, b []byte, n uint64, k int) {
	last := k == len(s.want)-1
	switch {
	case w != s.want[k].at:
		s.lost++
	case last && s.seen[n]:
		s.fault(w, "twice", b)
	case last:
		s.seen[n] = true
		s.good = append(s.good, arrival{at, n})
		s.since = min(s.since, n)
	case n > s.since:
		s.fault(w, fmt.Sprintf("in an old form after packet %d had the new one", s.since), b)
	default:
		s.stale++
	}
}

func (s *stream) fault(w *wire, what string, b []byte) {
	if len(s.wrong) < 5 {
		s.wrong = append(s.wrong, fmt.Sprintf("%s at %s: %s\n%s", s.name, w.dev, what, hex.Dump(b)))
	}
}

// isICMP says whether b is ICMP over IPv4, whose errors quote other packets.
func isICMP(b []byte) bool {
	return len(b) > 34 && b[12] == 8 && b[13] == 0 && b[23] == 1
}

// received is how many right packets have come.
func (s *stream) received() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.good)
}

// gap is the longest time since then in which the sink waited for a packet: it
// begins with the last right packet, or when the next one was sent, if that was
// later, and ends with the next right packet, or now.
func (s *stream) gap(since time.Time) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait, next := since, uint64(0)
	for _, a := range append(s.good[:len(s.good):len(s.good)], arrival{time.Now(), noPacket}) {
		if a.at.After(since) {
			from := wait
			if next < uint64(len(s.sent)) && s.sent[next].After(from) {
				from = s.sent[next]
			}
			longest = max(longest, a.at.Sub(from))
			wait = a.at
		}
		if a.number != noPacket {
			next = max(next, a.number+1)
		}
	}
	return longest
}

// check reports what was wrong.
func (s *stream) check(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.wrong {
		t.Error(w)
	}
}
