// SPDX-License-Identifier: Apache-2.0

// Package agent is the daemon's loop: wait, settle, observe, plan, apply,
// publish.
//
//	events of the kernel ┐
//	notify, SIGUSR1      ├─▶ settle ─▶ look: Observe ─▶ Desired, Diff ─▶ Apply ─▶ Document
//	every minute         ┘                ▲                                │
//	SIGHUP ─▶ read the files again ───────┘◀── back-off ── an error ◀──────┘
//
// One goroutine owns everything here; the control socket and the signals only
// hand over to it. An event says "look again" and nothing else: what is done
// follows from what the kernel reports then, never from memory. Three things
// are remembered because no kernel can tell them: the last good
// configuration, what the behaviour of early_ingress showed (check.go), and
// what the traffic is made of (mix.go).
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime/debug"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"fastpath/src/config"
	"fastpath/src/state"
	"fastpath/src/status"
)

// Kernel is what the agent needs of a kernel. Calls come one at a time.
type Kernel interface {
	Observe(q state.Query) (state.Observed, error)
	Apply(step state.Step) error // the whole step or nothing of it
	// Watch sends whenever something changed that Observe would show, until
	// ctx ends or, with a closed channel, until it can't any more.
	Watch(ctx context.Context) (<-chan struct{}, error)
	Counters() (state.Counters, error)
	Flows() ([]state.Flow, error)
	// Connections are the same without In, Out and Encap, which cost a route
	// lookup for each address: it's for the samples.
	Connections() ([]state.Flow, error)
	// Place fills in In, Out and Encap of some of them.
	Place(flows []state.Flow) error
	// Flush sends the engines' flows that match back to the slow path, to be
	// judged again, and tells how many there were. A flowtable's stay.
	Flush(match func(state.Flow) bool) (int, error)
	// Why is the engines' word on a connection whose ct mark hands it to them:
	// "" they carry it, else why not. They may not know it (yet).
	Why(proto string, src, dst netip.AddrPort) (reason string, known bool)
	// Connection is conntrack's entry for a tuple, whichever of its directions
	// is asked for; the error is state.ErrNoConnection when there is none.
	Connection(proto string, src, dst netip.AddrPort) (state.Connection, error)
	// InSet: an address is in a set of our table.
	InSet(set string, a netip.Addr) (bool, error)
	Cleanup() error // takes away everything of ours and restores the ports
}

// Options are what an Agent is made of; all but Watchdog are needed.
type Options struct {
	Kernel   Kernel
	Dirs     config.Dirs
	Version  string
	Log      *slog.Logger
	SdNotify func(state string) // tells the service manager, as sd_notify(3)
	Watchdog time.Duration      // the service manager's limit; 0: none
	Vanished func(error) bool   // a device went away between look and apply
	Fatal    func(error) bool   // no look can ever succeed, as without permission
}

// Agent is one daemon's loop.
type Agent struct {
	Options
	since time.Time

	looks    chan struct{}
	reloads  chan struct{}
	requests chan func()
	stopped  chan struct{}

	events  <-chan struct{}
	due     deadlines
	conf    config.Config
	inForce status.Config
	good    bool // conf was read without an error
	lists   config.DropLists

	seen    state.Observed // by the last look
	table   *state.Table   // ours, as the last look left it
	report  state.Report
	last    status.Look
	plan    status.Plan
	done    string    // the steps of the last look, which the next should not need again
	undone  bool      // but did
	learnt  time.Time // the last change of the generation
	held    time.Time // when the next may be; zero: none waits
	fails   int       // looks in a row with a problem
	carried *carried
	check   check
	mix     mixer
	turn    *turn // of the traffic, which the next look acts on
	compare comparison
	stat    string // the file /proc/stat
	meter   status.Meter
	hits    map[string]uint64 // packets that rules have counted, by identity
	drops   status.Drops
	said    string // the last STATUS=
}

// carried is what forwards for us as the last look left it; nil: nothing does.
type carried struct {
	number  uint32
	devices []string // of the flowtable; none: there is no flowtable
	engines []string // ports that have one, or are about to
	checks  []string
	exact   bool // see evidence.exact
}

// New makes an agent; Run starts it.
func New(o Options) *Agent {
	return &Agent{
		Options:  o,
		since:    time.Now(),
		looks:    make(chan struct{}, 1),
		reloads:  make(chan struct{}, 1),
		requests: make(chan func()),
		stopped:  make(chan struct{}),
		stat:     "/proc/stat",
	}
}

// Look asks for a look at the kernel, after it has settled.
func (a *Agent) Look() { poke(a.looks) }

// Reload asks for the files to be read again.
func (a *Agent) Reload() { poke(a.reloads) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is waiting already, and will see everything
	}
}

// Run works until ctx ends, then takes everything away again. It returns an
// error when the first look was hopeless (Options.Fatal), when taking away
// failed, or after a panic.
//
// A panic takes everything away too. The flowtable would go on without us,
// but nobody would take the flows of a lost WAN out of it: a router that is
// plain and slow is right, one that is fast and unattended is not. The
// service manager starts us again.
func (a *Agent) Run(ctx context.Context) (err error) {
	defer close(a.stopped)
	defer func() {
		if p := recover(); p != nil {
			a.Log.Error("panic: taking everything away", "panic", p, "stack", string(debug.Stack()))
			err = errors.Join(fmt.Errorf("panic: %v", p), a.cleanup())
		}
	}()
	a.load()
	if err := a.watch(ctx); err != nil && a.Fatal(err) {
		return err
	}
	if err := a.look(); err != nil && a.Fatal(err) {
		return err
	}
	debug.FreeOSMemory() // the first look reads most; after it an idle router stays small
	a.say(daemon.SdNotifyReady)
	a.loop(ctx)
	a.SdNotify(daemon.SdNotifyStopping)
	a.Log.Info("stopping")
	return a.cleanup()
}

// cleanupTime bounds the kernel calls of a cleanup after a panic: the exit
// must come.
const cleanupTime = 20 * time.Second

func (a *Agent) cleanup() error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic in cleanup: %v", p)
			}
		}()
		err := a.Kernel.Cleanup()
		if err != nil {
			err = a.Kernel.Cleanup()
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
		return nil
	case <-time.After(cleanupTime):
		return fmt.Errorf("clean up: %w", os.ErrDeadlineExceeded)
	}
}

// watch listens to the kernel. Without it only the minute's look remains.
func (a *Agent) watch(ctx context.Context) error {
	events, err := a.Kernel.Watch(ctx)
	if err == nil {
		a.events = events
		return nil
	}
	if !a.Fatal(err) {
		a.Log.Error("can't watch the kernel, looking each minute only", "error", err)
	}
	return err
}
