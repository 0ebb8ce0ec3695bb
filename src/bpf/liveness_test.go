// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"testing"
	"time"

	"fastpath/src/packet"
)

func TestTick(t *testing.T) {
	t.Parallel()
	r, frame := oneFlow(t, EngineXDP)
	r.set.Tick()
	r.want(frame, packet.Forward, "after the first tick")
	time.Sleep(tickLimit + 200*time.Millisecond)
	r.want(frame, packet.Stale, "5 s later")
	r.set.Tick()
	r.want(frame, packet.Forward, "after another tick")
}

func TestNeverTicked(t *testing.T) {
	r, frame := oneFlow(t, EngineXDP)
	r.want(frame, packet.Stale, "before the first tick")
}

func TestQueueLiveness(t *testing.T) {
	t.Parallel()
	r, frame := oneFlow(t, EngineAFXDP)
	q, err := r.set.Queue(0, 0)
	must(t, err)
	late := func() { time.Sleep(queueLimit + 100*time.Millisecond) }

	r.want(frame, packet.Forward, "nothing to answer")
	if !q.Behind() {
		t.Error("a packet was given, but the queue isn't behind")
	}
	late()
	r.want(frame, packet.Stale, "not answered in time")
	r.want(frame, packet.Stale, "not answered at all")
	q.Answer()
	if q.Behind() {
		t.Error("behind after an answer")
	}
	r.want(frame, packet.Forward, "answered")
	q.Answer()
	late()
	r.want(frame, packet.Forward, "idle in between")
	*q.given++ // one more, as the program would
	late()
	*q.taken++ // an answer to the first of the two
	r.want(frame, packet.Forward, "behind, but moving")
	late()
	r.want(frame, packet.Stale, "behind, and not moving")
	*q.given = ^uint32(0)
	q.Answer()
	r.want(frame, packet.Forward, "the counter wraps")
	late()
	r.want(frame, packet.Stale, "behind across the wrap")
	q.Answer()
	r.want(frame, packet.Forward, "answered after it")
}
