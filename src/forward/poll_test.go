// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// While packets come the worker naps, if it has not left some: then only when it
// has not rested for long. One or two may be all there is.
func TestRest(t *testing.T) {
	nap, wait := Counters{Naps: 1}, Counters{Polls: 1}
	for _, c := range []struct {
		n      int
		rested time.Duration // ago; -1 h: not due, however slow the test is
		want   Counters
	}{
		{0, -time.Hour, wait}, {0, time.Hour, wait}, {1, -time.Hour, Counters{}}, {napFew - 1, -time.Hour, Counters{}},
		{napFew, -time.Hour, nap}, {burstSize - 1, -time.Hour, nap}, {burstSize, -time.Hour, Counters{}}, {burstSize, time.Hour, nap},
	} {
		r := newRig(t, 1, 1)
		r.deliver(0, 0) // or the wait would be a long one
		p := &r.worker.poll
		p.rested = time.Now().Add(-c.rested)
		r.worker.rest(c.n)
		if got := r.worker.Counters(); got != c.want {
			t.Errorf("after %d packets, rested %v ago: %+v, want %+v", c.n, c.rested, got, c.want)
		}
		if c.want != (Counters{}) && time.Since(p.rested).Abs() > 10*time.Minute {
			t.Errorf("after %d packets: a rest that was not noted", c.n)
		}
	}
}

func TestNap(t *testing.T) {
	var p poller
	begin := time.Now()
	for range 100 {
		p.nap()
	}
	if d := time.Since(begin); d < 100*napTime {
		t.Errorf("100 naps took %v", d)
	}
}

// A socket that is broken doesn't keep the worker awake, and not from the others.
func TestBrokenQueue(t *testing.T) {
	gone, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	w.Close() // from here on poll says POLLHUP
	other, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	var p poller
	if err := p.open([]int{int(gone.Fd()), other}); err != nil {
		t.Fatal(err)
	}
	defer p.close()
	p.wait(false)
	begin := time.Now()
	p.wait(true)
	p.wait(true)
	if d := time.Since(begin); d < 3*soon {
		t.Errorf("two waits of %v and %v were over after %v", soon, 2*soon, d)
	}
	if _, err := unix.Write(other, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	p.wait(false)
	if d := time.Since(begin); d >= idleWait {
		t.Error("the other queue didn't end the wait")
	}
}
