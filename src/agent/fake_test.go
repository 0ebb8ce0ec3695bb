// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fastpath/src/config"
	"fastpath/src/state"
	"fastpath/src/status"
)

var (
	errGone  = errors.New("no such device")
	errNever = errors.New("not permitted")
	discard  = slog.New(slog.DiscardHandler)
)

// fake is a kernel in memory: what is applied is what is observed after. The
// test holds mu whenever it runs and lets it go while it waits (pass), so that
// test and agent take turns.
type fake struct {
	mu       sync.Mutex
	held     bool // by the test
	o        state.Observed
	counters state.Counters
	flows    []state.Flow
	conns    []state.Connection
	why      map[string]string // the engines' word, by the originator's address
	sets     map[string]string // an address in each
	refuse   map[string]string // engines that ports refuse, with the reason
	events   chan struct{}

	calls   map[string]int   // by name
	looked  time.Time        // the last Observe
	fail    map[string]error // by name: the next call returns it once
	always  map[string]error // by name: every call
	before  func(step state.Step)
	applied []string
	cleaned bool
	forgets bool // what is applied doesn't show
}

func newFake() *fake {
	link := func(i int, name string) state.Link {
		return state.Link{Index: i, Name: name, Up: true, Bus: true, MTU: 1500, Driver: "virtio_net",
			Feature: state.Features{GRO: state.Feature{On: true}}}
	}
	return &fake{
		o: state.Observed{
			Release: "6.12.0-fake",
			Links:   []state.Link{link(2, "eth0"), link(3, "eth1")},
			Marks:   state.Ability{OK: true},
			Hooks:   state.Hooks{Ingress: state.Ability{OK: true}, Early: state.Ability{Reason: "the kernel doesn't have it"}},
			Saved:   map[string]state.Offloads{},
			Engines: map[string]state.Engine{},
			Refused: map[string]state.Refusal{},
		},
		events: make(chan struct{}, 1),
		calls:  map[string]int{},
		fail:   map[string]error{},
		always: map[string]error{},
	}
}

// pass lets d pass and everything come to rest.
func (k *fake) pass(d time.Duration) {
	k.meanwhile(func() {
		time.Sleep(d)
		synctest.Wait()
	})
}

// meanwhile lets the agent go on while f waits for it.
func (k *fake) meanwhile(f func()) {
	if k.held {
		k.mu.Unlock()
	}
	f()
	k.mu.Lock()
	k.held = true
}

func (k *fake) call(name string) error {
	k.calls[name]++
	if err := k.always[name]; err != nil {
		return err
	}
	err := k.fail[name]
	delete(k.fail, name)
	return err
}

func (k *fake) Observe(q state.Query) (state.Observed, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looked = time.Now()
	if err := k.call("Observe"); err != nil {
		return state.Observed{}, err
	}
	o := k.o
	o.Links, o.Checks = slices.Clone(o.Links), slices.Clone(o.Checks)
	o.Saved, o.Engines, o.Refused = maps.Clone(o.Saved), maps.Clone(o.Engines), maps.Clone(o.Refused)
	if o.Table != nil {
		t := *o.Table
		t.Flowtable.Devices = slices.Clone(t.Flowtable.Devices)
		o.Table = &t
	}
	return o, nil
}

func (k *fake) Watch(ctx context.Context) (<-chan struct{}, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.events, k.call("Watch")
}

func (k *fake) Counters() (state.Counters, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.counters, k.call("Counters")
}

func (k *fake) Flows() ([]state.Flow, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.flows), k.call("Flows")
}

func (k *fake) Connections() ([]state.Flow, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ours := slices.DeleteFunc(slices.Clone(k.flows), func(f state.Flow) bool { return f.Engine != state.EngineFlowtable })
	return ours, k.call("Connections")
}

func (k *fake) InSet(set string, a netip.Addr) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sets[set] == a.String(), k.call("InSet")
}

func (k *fake) Flush(match func(state.Flow) bool) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := len(k.flows)
	k.flows = slices.DeleteFunc(k.flows, func(f state.Flow) bool { return f.Engine != state.EngineFlowtable && match(f) })
	return before - len(k.flows), k.call("Flush")
}

func (k *fake) Why(proto string, src, dst netip.AddrPort) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	reason, known := k.why[src.Addr().String()]
	return reason, known
}

func (k *fake) Connection(proto string, src, dst netip.AddrPort) (state.Connection, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		if c.Proto == proto && (c.Orig.Src == src.Addr().String() || c.Orig.Src == dst.Addr().String()) {
			return c, k.call("Connection")
		}
	}
	return state.Connection{}, cmp.Or(k.call("Connection"), state.ErrNoConnection)
}

func (k *fake) Cleanup() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.call("Cleanup"); err != nil {
		return err
	}
	k.o.Table, k.o.Checks, k.cleaned = nil, nil, true
	return nil
}

// event is what the kernel sends when something changed.
func (k *fake) event() {
	select {
	case k.events <- struct{}{}:
	default:
	}
}

func (k *fake) link(name string) *state.Link {
	for i := range k.o.Links {
		if k.o.Links[i].Name == name {
			return &k.o.Links[i]
		}
	}
	return nil
}

func (k *fake) Apply(s state.Step) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.before != nil {
		k.before(s)
	}
	name := strings.TrimPrefix(fmt.Sprintf("%T", s), "state.")
	if err := k.call(name); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	if k.forgets {
		k.event()
		return nil
	}
	if err := k.change(s); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	k.applied = append(k.applied, s.String())
	k.event() // the kernel tells about our own changes as well
	return nil
}

// readBack are rules as the kernel tells them: by identity.
func readBack(rules []state.Rule) (back []state.Rule) {
	for _, r := range rules {
		back = append(back, state.Rule{Read: r.Identity()})
	}
	return back
}

func (k *fake) change(s state.Step) error {
	switch s := s.(type) {
	case state.ReplaceTable:
		for _, d := range s.Table.Flowtable.Devices {
			if k.link(d) == nil {
				return errGone
			}
		}
		k.o.Table = &s.Table
		k.o.Table.Rules = readBack(s.Table.Rules)
	case state.DeleteTable:
		k.o.Table = nil
	case state.AddDevices:
		k.o.Table.Flowtable.Devices = append(k.o.Table.Flowtable.Devices, s.Devices...)
		slices.Sort(k.o.Table.Flowtable.Devices)
	case state.RemoveDevices:
		k.o.Table.Flowtable.Devices = slices.DeleteFunc(k.o.Table.Flowtable.Devices,
			func(d string) bool { return slices.Contains(s.Devices, d) })
	case state.ReplaceRules:
		k.o.Table.Rules, k.o.Table.Zones, k.o.Table.Sets = readBack(s.Table.Rules), s.Table.Zones, s.Table.Sets
	case state.SetSysctl:
		k.o.Sysctls, k.o.SavedSysctls = map[string]state.Sysctl{s.Name: {Value: s.Value}}, map[string]string{s.Name: "0"}
	case state.SetDrop:
		k.o.Drop = s.Drop.State()
	case state.RemoveDrop:
		k.o.Drop = state.DropState{}
	case state.AddCheck:
		k.o.Checks = append(k.o.Checks, s.Device)
		slices.Sort(k.o.Checks)
	case state.RemoveCheck:
		k.o.Checks = slices.DeleteFunc(k.o.Checks, func(d string) bool { return d == s.Device })
	case state.SetOffloads:
		return k.setOffloads(s)
	case state.RestoreOffloads:
		if l := k.link(s.Port); l != nil {
			l.Feature.GRO.On, l.Feature.GROList.On = s.Saved.GRO, s.Saved.GROList
		}
		delete(k.o.Saved, s.Port)
	case state.StartEngine:
		k.startEngine(s)
	case state.StopEngine:
		delete(k.o.Engines, s.Port)
	default:
		return fmt.Errorf("the fake doesn't know %T", s)
	}
	return nil
}

// rig is an agent that runs on a fake kernel inside a synctest bubble.
type rig struct {
	t      *testing.T
	k      *fake
	a      *Agent
	dir    string
	said   []string
	log    strings.Builder
	cancel context.CancelFunc
	result chan error
	ticks  uint64 // in softirqs, as /proc/stat has them
	hidden bool   // flows aren't counted
}

const enabled = `
config fastpath 'main'
	option enabled '1'
config port
	option device 'eth0'
config port
	option device 'eth1'
`

// start runs the agent on k with this configuration and waits for its first look.
func start(t *testing.T, k *fake, text string, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, k: k, dir: t.TempDir(), result: make(chan error, 1)}
	r.write(text)
	o := Options{
		Kernel:  k,
		Dirs:    config.Dirs{Config: r.dir},
		Version: "1.2.3",
		Log:     slog.New(slog.NewTextHandler(&r.log, nil)),
		SdNotify: func(s string) {
			k.mu.Lock()
			defer k.mu.Unlock()
			r.said = append(r.said, s)
		},
		Vanished: func(err error) bool { return errors.Is(err, errGone) },
		Fatal:    func(err error) bool { return errors.Is(err, errNever) },
	}
	for _, f := range change {
		f(&o)
	}
	r.a = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	k.meanwhile(func() {
		go func() { r.result <- r.a.Run(ctx) }()
		synctest.Wait()
	})
	return r
}

func (r *rig) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "fastpath"), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) pass(d time.Duration) { r.k.pass(d) }

func (r *rig) stop() error {
	r.cancel()
	return r.ended()
}

func (r *rig) ended() (err error) {
	r.k.meanwhile(func() { err = <-r.result })
	return err
}

func (r *rig) status() (d status.Document) {
	r.t.Helper()
	r.k.meanwhile(func() {
		var err error
		if d, err = r.a.Status(); err != nil {
			r.t.Error(err)
		}
		synctest.Wait()
	})
	return d
}

func (r *rig) flows() (flows []state.Flow, err error) {
	r.k.meanwhile(func() { flows, err = r.a.Flows() })
	return flows, err
}

func (r *rig) installed() bool { return r.k.o.Table != nil && len(r.k.o.Table.Flowtable.Devices) == 2 }

func (k *fake) startEngine(s state.StartEngine) {
	if why, no := k.refuse[s.Port]; no {
		k.o.Refused[s.Port] = state.Refusal{Want: s.Want, Reason: why}
	} else {
		k.o.Engines[s.Port] = s.Want
	}
}
