// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fastpath/src/bpf"
	"fastpath/src/flow"
	"fastpath/src/flowsync"
)

// base is what all ports share: it comes with the first one and goes with the last.
type base struct {
	set    *bpf.Set
	sink   *sink
	crew   *crew
	sync   *flowsync.Sync
	cancel context.CancelFunc
	tasks  sync.WaitGroup // flowsync's Run and the ticker
	stop   chan struct{}  // closed: the ticker ends
}

// open loads the program and starts flowsync, which listens to conntrack in the
// calling thread's network namespace.
func (m *Manager) open(mark uint32) (*base, error) {
	unlimitMemory()
	flows := maxFlows(m.MemTotal)
	set, err := bpf.Load(bpf.Options{MaxFlows: flows})
	if err != nil {
		return nil, err
	}
	if err := setDrop(set, m.dropped); err != nil {
		return nil, errors.Join(err, set.Close())
	}
	table := flow.New(int(flows))
	b := &base{
		set:  set,
		sink: &sink{set: set, table: table, woken: make(chan struct{}, 1)},
		crew: &crew{set: set, table: table, memTotal: m.MemTotal},
		stop: make(chan struct{}),
	}
	b.sync, err = flowsync.New(flowsync.Options{Mark: mark, Sink: b.sink, MaxFlows: int(flows / 2), Log: m.Log})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen to conntrack: %w", err), set.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	b.tasks.Go(func() { m.listen(ctx, b) })
	b.sync.SetDrop(m.dropped)
	b.tasks.Go(func() { b.tick(m.beat) })
	return b, nil
}

// listen runs flowsync. If that ends before it is told to, it has taken all
// flows out, and nobody would put new ones in or look after them.
func (m *Manager) listen(ctx context.Context, b *base) {
	err := b.sync.Run(ctx)
	switch {
	case ctx.Err() != nil && err != nil:
		m.Log.Error("flowsync", "error", err)
	case ctx.Err() == nil:
		go m.deserted(b, err) // not one of b's tasks, for which close waits with the lock
	}
}

// deserted refuses all engines, because flowsync has ended.
func (m *Manager) deserted(b *base, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.base != b {
		return
	}
	for _, p := range m.ports {
		p.retired = true
		m.refuse(p.link, p.want, oneLine(fmt.Errorf("the connections can't be followed any more: %w", err)))
	}
}

// lookEvery is how often garbage is looked for without flows: flowsync wakes up
// as often to verify what it knows, which makes some.
const lookEvery = 10 * time.Second

// tick tells the program once a second that the daemon is alive, and calls beat,
// as long as there are flows; without flows it nearly sleeps. Stats waits for flowsync:
// while that hangs nobody looks after the flows, and so the program may well
// take us for dead.
func (b *base) tick(beat func()) {
	for {
		select {
		case <-b.stop:
			return
		case <-b.sink.woken:
		case <-time.After(lookEvery):
			b.crew.garbage.Collect()
			continue
		}
		for more := true; more; more = b.sync.Stats().Flows > 0 {
			b.set.Tick()
			beat()
			b.crew.garbage.Collect()
			select {
			case <-b.stop:
				return
			case <-time.After(time.Second):
			}
		}
	}
}

// close ends everything; the flows' mark bits are cleared before it returns.
func (b *base) close() error {
	b.cancel()
	close(b.stop)
	b.tasks.Wait()
	return errors.Join(b.crew.assemble(nil), b.set.Close())
}
