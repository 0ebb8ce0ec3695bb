// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/binary"
	"sync"
	"testing"
	"time"
)

const lowMTU = 1300

// An MTU that is lowered holds for all: what is longer and may be fragmented is
// by the kernel; what may not be is answered with ICMP, and no longer sent.
func TestMTULowered(t *testing.T) {
	for _, engine := range append([]string{""}, engines...) {
		t.Run(name(engine), func(t *testing.T) {
			t.Parallel()
			for range attempts {
				if lowerMTU(newLab(t, engine)) <= limit || t.Failed() {
					return
				}
			}
			t.Errorf("a gap of more than %v, %d times", limit, attempts)
		})
	}
}

func lowerMTU(l *lab) (gap time.Duration) {
	const size = 1400 - 28 // packets of 1400 bytes
	split, whole := l.newFlow("split", 1002, size), l.newFlow("whole", 1003, size)
	split.up.frame.Frag, split.up.want[0].frame.Frag = 0, 0
	tails, refusals := watchTails(l.g, split.up), watchRefusals(l.a, whole.up)
	l.startDaemon()
	for _, f := range []flow{l.flow, split, whole} {
		f.start(l)
	}
	l.settled("with long packets")
	eventually(l, "an engine has all three flows", func() bool { return l.engine == "" || len(l.flows()) == 3 })

	begin := time.Now()
	fragmented := split.up.want[0]
	fragmented.mtu = lowMTU
	split.up.expect(fragmented)
	l.router.Run(l, "ip link set w0 mtu 1300")
	time.Sleep(after)
	l.settled("the short ones, with a lower MTU")
	split.finish(l)
	whole.finish(l)
	gap = max(l.up.gap(begin), split.up.gap(begin), refusals.begin(l).Sub(begin))
	l.Logf("gap of the short packets %v, of those to split %v, of the others until they are refused %v",
		ms(l.up.gap(begin)), ms(split.up.gap(begin)), ms(refusals.begin(l).Sub(begin)))
	tails.compare(l)
	l.finish()
	return gap
}

// counted is what a tap has seen.
type counted struct {
	mu    sync.Mutex
	s     *stream
	n     int
	first time.Time
	wrong int
}

// watchTails checks the second fragments of a stream, which don't hold its magic.
func watchTails(w *wire, s *stream) *counted {
	c := &counted{s: s}
	w.tap(func(_ *wire, _ time.Time, b []byte) {
		if len(b) < 34 || b[23] != 17 || binary.BigEndian.Uint16(b[20:])&0x1fff == 0 {
			return
		}
		s.mu.Lock()
		want := fragments(s.bytes(s.want[0].frame, uint64(binary.BigEndian.Uint16(b[18:]))), lowMTU)[1]
		s.mu.Unlock()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n++
		if !bytes.Equal(b, want) {
			c.wrong++
		}
	})
	return c
}

// compare wants a tail for each first fragment; the last may be missing.
func (c *counted) compare(t testing.TB) {
	t.Helper()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	heads := 0
	for _, a := range c.s.good {
		if a.number >= c.s.since {
			heads++
		}
	}
	if heads == 0 || c.n < heads-1 || c.n > heads || c.wrong > 0 {
		t.Errorf("%d second fragments for %d first ones; %d wrong", c.n, heads, c.wrong)
	}
}

// watchRefusals takes ICMP's "fragmentation needed" (RFC 792, RFC 1191) for the
// stream's packets. After the first refusal none may arrive.
func watchRefusals(w *wire, s *stream) *counted {
	c := &counted{s: s}
	w.tap(func(_ *wire, at time.Time, b []byte) {
		if !isICMP(b) || len(b) < 14+20+8+28 || b[34] != 3 || b[35] != 4 || binary.BigEndian.Uint16(b[40:]) != lowMTU {
			return
		}
		quoted := b[42:]
		if binary.BigEndian.Uint16(quoted[20:]) != s.frame.From.Port() {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.n++; c.n == 1 {
			c.first = at
			s.refuse(uint64(binary.BigEndian.Uint16(quoted[4:])))
		}
	})
	return c
}

// refuse says that packet n was refused: no later one may come.
func (s *stream) refuse(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want = append(s.want, form{})
	s.since = n
}

// begin is when the first packet was refused.
func (c *counted) begin(t testing.TB) time.Time {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == 0 {
		t.Fatal("no packet was refused with the right MTU")
	}
	return c.first
}
