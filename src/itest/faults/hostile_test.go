// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"fastpath/src/itest/engine"
)

var (
	outsider = netip.MustParseAddr("203.0.113.9") // nobody's address
	outer1   = netip.MustParseAddr("2001:db8::1")
	outer2   = netip.MustParseAddr("2001:db8::2")
)

// Hostile frames at both sides of a router do no harm to its flows, and what leaves
// of them is what a router makes of such a packet, and nothing else.
func TestHostileFrames(t *testing.T) {
	for _, engine := range append([]string{""}, engines...) {
		t.Run(name(engine), func(t *testing.T) {
			t.Parallel()
			attack(newLab(t, engine))
		})
	}
}

func attack(l *lab) {
	victim := l.newFlow("victim", 1002, 64) // whose frames are spoilt
	l.startDaemon()
	l.start(l)
	victim.start(l)
	l.settled("before the attack")
	eventually(l, "an engine has both flows", func() bool { return l.engine == "" || len(l.flows()) == 2 })
	victim.up.halt()
	victim.down.halt()

	attacks := []*attacker{newAttacker(l.a, l.g, victim.up), newAttacker(l.g, l.a, victim.down)}
	var memory [3]int
	for round := range memory {
		memory[round] = l.resident()
		for _, a := range attacks {
			a.send()
		}
	}
	l.settled("after the attack")
	for _, a := range attacks {
		a.check(l)
	}
	l.finish()
	l.Logf("the daemon has %d kB resident after the attacks", memory)
	if grown := memory[2] - memory[1]; grown > 3<<10 {
		l.Errorf("the daemon has grown by %d kB from one round to the next", grown)
	}
}

// attacker sends hostile frames that are made of a stream's, and watches what
// comes of them at the stream's sink.
type attacker struct {
	from    *wire
	in, out engine.Frame
	frames  [][]byte
	allowed map[string]bool // what may leave in the flow's name
	mu      sync.Mutex
	came    int
	wrong   []string
}

func newAttacker(from, to *wire, s *stream) *attacker {
	a := &attacker{from: from, in: s.frame, out: s.want[0].frame, allowed: map[string]bool{}}
	a.in.Payload, a.in.Frag = []byte("hostile frames, made of these bytes"), 0
	rng := rand.New(rand.NewPCG(1, 2))
	for _, frame := range valid(a.in) {
		a.frames = append(a.frames, hostile(rng, frame)...)
	}
	for _, b := range a.frames {
		if carried(b, a.in) && b[22] > 1 {
			a.allowed[string(forwarded(b, a.out))] = true
		}
	}
	to.tap(a.take)
	return a
}

// send sends all of them, no faster than a sink of ours can take them.
func (a *attacker) send() {
	for i, b := range a.frames {
		a.from.send(b)
		if i%20 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// take checks a frame that leaves as the flow's; what fills it up must be zero.
func (a *attacker) take(w *wire, _ time.Time, b []byte) {
	if !carried(b, a.out) || bytes.Contains(b, []byte("\xf5")) {
		return
	}
	size := 14 + int(b[16])<<8 + int(b[17])
	a.mu.Lock()
	defer a.mu.Unlock()
	a.came++
	if size <= len(b) && a.allowed[string(b[:size])] && len(bytes.Trim(b[size:], "\x00")) == 0 {
		return
	}
	if len(a.wrong) < 5 {
		a.wrong = append(a.wrong, fmt.Sprintf("at %s:\n%s", w.dev, hex.Dump(b)))
	}
}

func (a *attacker) check(t testing.TB) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	t.Logf("%d hostile frames three times, %d of them could be the flow's, %d came through", len(a.frames), len(a.allowed), a.came)
	if a.came == 0 {
		t.Error("not one frame came through: this test shows nothing")
	}
	for _, w := range a.wrong {
		t.Errorf("a frame that no router makes, %s", w)
	}
}
