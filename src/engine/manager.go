// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"fastpath/src/flowsync"
	"fastpath/src/packet"
	"fastpath/src/state"
)

// ErrVanished: the port is gone. Look again.
var ErrVanished = errors.New("the port is gone, look again")

// Options are what a Manager is made of.
type Options struct {
	Log *slog.Logger
	// Changed is called, from any goroutine, when Observe would show something
	// that no event of the kernel tells.
	Changed func()
	// MemTotal is the machine's memory in bytes; 0: ask the kernel.
	MemTotal uint64
}

// Manager runs the engines of one network namespace: that of the threads that
// call it. Its methods may be called from any goroutine.
type Manager struct {
	Options
	netlink *netlink.Handle
	// features is featureReader.read, but in tests that play an older kernel.
	features func(ifindex int) (features uint64, known bool, err error)

	mu      sync.Mutex
	links   []state.Link // of the last look
	ports   []*port
	base    *base // nil without ports
	refused map[string]*refusal
	own     map[uint32]bool // ids of programs that are or were ours
	path    string          // what carries flows without an engine, in words
	dropped []state.DropSet
	trials  map[string]*trial // by kind of engine
}

// New makes a Manager; it does nothing by itself.
func New(o Options) (*Manager, error) {
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.MemTotal == 0 {
		var err error
		if o.MemTotal, err = readMemTotal(); err != nil {
			return nil, err
		}
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	features, err := newFeatureReader()
	if err != nil {
		return nil, err
	}
	return &Manager{
		Options: o, netlink: h, features: features.read,
		refused: map[string]*refusal{}, own: map[uint32]bool{}, trials: map[string]*trial{},
	}, nil
}

// Unmark clears the bit in all connections, in the calling thread's network
// namespace: for what a daemon left behind that was killed. A kernel whose
// conntrack can't be asked, or has no marks, has nothing to clear.
func Unmark(mark uint32) error {
	err := flowsync.Unmark(mark)
	for _, none := range []unix.Errno{unix.EINVAL, unix.EPROTONOSUPPORT, unix.EOPNOTSUPP} {
		if errors.Is(err, none) {
			return nil
		}
	}
	return err
}

// Start puts an engine on a port, which the last Observe must have shown. That
// the port can't have it is no error: the next Observe shows it refused.
func (m *Manager) Start(name string, want state.Engine) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.refused, name)
	i := slices.IndexFunc(m.links, func(l state.Link) bool { return l.Name == name })
	if i < 0 {
		return fmt.Errorf("start engine %v on %s: %w", want, name, ErrVanished)
	}
	if p := m.port(name); p != nil {
		if err := m.stop(p); err != nil {
			return fmt.Errorf("start engine %v on %s: %w", want, name, err)
		}
	}
	if t := m.trials[want.Kind]; t.stands(name, want, time.Now()) {
		m.refuse(m.links[i], want, t.result)
		return nil
	}
	err := m.start(m.links[i], want)
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return fmt.Errorf("start engine %v on %s: %w: %w", want, name, ErrVanished, err)
	case err != nil:
		m.refuse(m.links[i], want, explain(err, m.links[i], want))
		return nil
	}
	m.enter(m.port(name))
	m.proveOutputs()
	m.tellSync()
	return nil
}

// Stop takes the engine off a port; its flows go to the slow path first. That
// there is none is no error.
func (m *Manager) Stop(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.port(name)
	if p == nil {
		return nil
	}
	if err := m.stop(p); err != nil {
		return fmt.Errorf("stop the engine of %s: %w", name, err)
	}
	return nil
}

func (m *Manager) stop(p *port) error {
	p.retired = true
	m.tellSync()
	m.leave(p)
	return m.release(p)
}

// Close stops all engines and clears the bit in all connections.
func (m *Manager) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, p := range m.ports {
		p.retired = true
	}
	m.tellSync()
	for len(m.ports) > 0 {
		errs = append(errs, m.release(m.ports[0]))
	}
	clear(m.refused)
	clear(m.trials)
	return errors.Join(errs...)
}

// tellSync tells flowsync which ports there are. When it returns no flow uses another.
func (m *Manager) tellSync() {
	if m.base == nil {
		return
	}
	var ports []flowsync.Port
	for _, p := range m.ports {
		if p.output && !p.retired {
			ports = append(ports, p.sync())
		}
	}
	m.base.sync.SetPorts(ports)
}

func (m *Manager) port(name string) *port {
	for _, p := range m.ports {
		if p.link.Name == name {
			return p
		}
	}
	return nil
}

// syncing is flowsync, or nil.
func (m *Manager) syncing() *flowsync.Sync {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.base == nil {
		return nil
	}
	return m.base.sync
}

// Flows are the connections that engines carry.
func (m *Manager) Flows() []state.Flow {
	if s := m.syncing(); s != nil {
		return s.Flows()
	}
	return nil
}

// Why tells of a connection that carries the bit why no engine carries it; "":
// one does.
func (m *Manager) Why(proto string, src, dst netip.AddrPort) (reason string, known bool) {
	if s := m.syncing(); s != nil {
		return s.Why(proto, src, dst)
	}
	return "", false
}

// Flush sends the connections that match back to the slow path, to be judged
// again, and returns how many there were.
func (m *Manager) Flush(match func(state.Flow) bool) int {
	if s := m.syncing(); s != nil {
		return s.Flush(match)
	}
	return 0
}

// Counters adds what the engines did.
func (m *Manager) Counters(c *state.Counters) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.base == nil {
		return nil
	}
	c.Engines = make(map[string]state.EngineCounters, len(m.ports))
	for _, p := range m.ports {
		counters, err := m.base.crew.counters(p)
		if err != nil {
			return err
		}
		c.Engines[p.link.Name] = counters
		add(c.Dropped, p.link.Name, counters.Dropped[packet.DropList.String()])
	}
	st := m.base.sync.Stats()
	c.EngineFlows, c.EngineFull = st.Flows, st.Full
	return nil
}
