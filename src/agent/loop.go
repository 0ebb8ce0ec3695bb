// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

const (
	// settle is how long the kernel must be quiet before a look: a device
	// comes with a dozen events.
	settle = 100 * time.Millisecond
	// settleMost ends the wait in a storm, so that a flushed firewall or a lost
	// WAN is noticed within a second in any case.
	settleMost = 500 * time.Millisecond
	fullLook   = time.Minute
	// failGap is the least time between two looks while something fails, so
	// that events can't turn the back-off into a busy loop.
	failGap = time.Second
)

// deadlines are the times at which the loop has to do something; the zero
// time is never.
type deadlines struct {
	look     time.Time // the next look without an event
	settled  time.Time // the look that events asked for
	burst    time.Time // the first event of that
	sample   time.Time
	watchdog time.Time
}

func (d *deadlines) next() time.Time {
	first := d.look
	for _, t := range []time.Time{d.settled, d.sample, d.watchdog} {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

func isDue(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

// loop turns until ctx ends. The watchdog is fed from here and between the steps
// of a look, some of which take seconds, and nowhere else: a loop that hangs in a
// kernel call starves it.
func (a *Agent) loop(ctx context.Context) {
	if a.Watchdog > 0 {
		a.due.watchdog = time.Now()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(a.due.next()))
		select {
		case <-ctx.Done():
			return
		case _, open := <-a.events:
			if !open {
				a.events = nil // the next look listens anew
			}
			a.soon(time.Now())
		case <-a.looks:
			a.soon(time.Now())
		case <-a.reloads:
			a.reload()
		case answer := <-a.requests:
			answer()
		case <-timer.C:
		}
		a.work(ctx)
	}
}

// soon lets the kernel settle, then looks.
func (a *Agent) soon(now time.Time) {
	if a.due.burst.IsZero() {
		a.due.burst = now
	}
	at := now.Add(settle)
	if most := a.due.burst.Add(settleMost); at.After(most) {
		at = most
	}
	switch gap := a.last.Time.Add(failGap); {
	case a.undone: // the events may well be those of our own steps
		at = a.due.look
	case a.fails > 0 && at.Before(gap):
		at = gap
	}
	a.due.settled = at
}

// work does what is due.
func (a *Agent) work(ctx context.Context) {
	a.feed()
	now := time.Now()
	if isDue(a.due.look, now) || isDue(a.due.settled, now) {
		if a.events == nil {
			a.watch(ctx) // it logs its error; the next look tries again
		}
		a.look()
		a.publish()
	}
	if isDue(a.due.sample, now) {
		if err := a.sample(); err != nil {
			a.Log.Warn("counters", "error", err)
		}
		a.publish()
	}
}

// feed tells the service manager that the loop goes on.
func (a *Agent) feed() {
	if now := time.Now(); isDue(a.due.watchdog, now) {
		a.SdNotify(daemon.SdNotifyWatchdog)
		a.due.watchdog = now.Add(a.Watchdog / 2)
	}
}

// reload reads the files again and acts on them at once.
func (a *Agent) reload() {
	a.SdNotify(daemon.SdNotifyMonotonicUsec() + daemon.SdNotifyReloading)
	a.load()
	a.mix.forgive()
	a.look()
	a.say(daemon.SdNotifyReady)
}
