// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/packet"
)

// TestPrompt: connections that end during verifications of a full table leave
// the Sink at once; it measures how long they take.
func TestPrompt(t *testing.T) {
	l := newLab(t)
	l.neighbours()
	l.router.Run(t, "ip neigh replace 203.0.113.1 lladdr "+l.text(l.mac(l.net, "n0"))+" nud permanent dev eth0")
	const flows, mortal, round = 1 << 16, 400, 50
	l.insert(0, flows, packet.TCP, bit)
	l.start(Options{verifyEvery: time.Hour, idleAfter: time.Hour})
	l.insert(flows, mortal, packet.TCP, 0) // these have events
	ct := l.orders()
	defer ct.close()
	l.setMark(ct, flows, mortal, packet.TCP)
	l.carried(flows + mortal)
	var took, verified []time.Duration
	busy := 0
	for i := 0; i < mortal; i++ {
		if i%round == 0 { // a verification begins
			begin := time.Now()
			eventually(t, "the last verification ends", l.idle)
			verified = append(verified, time.Since(begin))
			l.sync.do(func() { l.sync.want(look{world: true, routes: true, connections: true, activity: true}, 0) })
		}
		begin := time.Now()
		l.end(ct, flows+i)
		for l.sink.size() != 2*(flows+mortal-i-1) {
			if time.Since(begin) > 10*time.Second {
				t.Fatalf("connection %d stays: %d entries, %+v", i, l.sink.size(), l.sync.Stats())
			}
			time.Sleep(100 * time.Microsecond)
		}
		took = append(took, time.Since(begin))
		if !l.idle() {
			busy++
		}
	}
	slices.Sort(took)
	slices.Sort(verified)
	t.Logf("%d ends, %d of them during a verification: median %v, 99 %% %v, longest %v; rest of a verification %v",
		mortal, busy, took[mortal/2], took[mortal*99/100], took[mortal-1], verified[len(verified)/2])
	if busy < mortal/4 {
		t.Errorf("only %d of the ends met a verification", busy)
	}
}

// end deletes the i-th connection of load.
func (l *lab) end(ct conntrack, i int) {
	l.t.Helper()
	orig, _ := loadTuple(i, packet.TCP)
	err := ct.batch(1, func(w *writer, _ int, seq uint32) {
		openTuple(w, ctDelete, unix.NLM_F_ACK, seq, &orig)
		w.close()
	}, func(_ int, _ []byte, err error) {
		if err != nil {
			l.t.Fatalf("connection %d: %v", i, err)
		}
	})
	if err != nil {
		l.t.Fatal(err)
	}
}
