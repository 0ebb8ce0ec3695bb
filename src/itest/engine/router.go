// SPDX-License-Identifier: Apache-2.0

// Package engine is a router of static Actions on either engine, for the tests
// beside it and for the benchmark; and the frames that they send.
package engine

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	"fastpath/src/bpf"
	"fastpath/src/flow"
	"fastpath/src/forward"
	"fastpath/src/packet"

	"github.com/safchain/ethtool"
)

// Spec is a router. It can be handed to another process.
type Spec struct {
	AFXDP   bool     // else the engine is xdp
	Devices []string // by slot; "": none
	Flows   []Flow
	Drop    [][2][4]byte // the drop list
	Ring    int          // slots of each ring; 0: 512
}

// Flow is one direction of a flow; Wire.Port is the index in Devices.
type Flow struct {
	In, Out  packet.Wire
	From, To packet.Tuple
	MTU      uint16
}

// Router forwards until Close.
type Router struct {
	spec    Spec
	set     *bpf.Set
	table   *flow.Table
	ports   []port // by slot
	crews   []*crew
	garbage forward.Collector
	past    Stats // of crews that were rebuilt
	running sync.WaitGroup
	stop    chan struct{}
}

// port is a device with the program on it; the zero port is none.
type port struct {
	slot    uint16
	name    string
	ifindex int
	queues  int // receive queues, and as many to send by
	mac     [6]byte
}

// Start makes the router in the current network namespace.
func Start(s Spec) (*Router, error) {
	if s.Ring == 0 {
		s.Ring = 512
	}
	r := &Router{spec: s, stop: make(chan struct{}), table: flow.New(len(s.Flows) + 1)}
	if err := r.start(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Router) start() (err error) {
	if r.set, err = bpf.Load(bpf.Options{MaxFlows: uint32(len(r.spec.Flows) + 1)}); err != nil {
		return err
	}
	if err := r.set.SetDrop(r.spec.Drop, nil); err != nil {
		return err
	}
	if r.spec.AFXDP {
		r.garbage.Begin(math.MaxInt64)
	}
	if err := r.Devices(r.spec.Devices); err != nil {
		return err
	}
	for i, f := range r.spec.Flows {
		if err := r.addFlow(f); err != nil {
			return fmt.Errorf("flow %d: %w", i, err)
		}
	}
	r.set.Tick()
	r.running.Go(r.tick)
	return nil
}

// Devices makes these the router's devices, by slot; "" is none. Those that stay
// lose no packet: while a worker is rebuilt, theirs go the slow path.
func (r *Router) Devices(names []string) error {
	ports := make([]port, len(names))
	for slot, name := range names {
		if name == "" {
			continue
		}
		p, err := newPort(uint16(slot), name)
		if err != nil {
			return fmt.Errorf("port %s: %w", name, err)
		}
		ports[slot] = p
	}
	old := r.ports
	r.ports = ports
	for _, p := range old {
		if err := r.removePort(p); err != nil {
			return fmt.Errorf("port %s: %w", p.name, err)
		}
	}
	if r.spec.AFXDP {
		if err := r.muster(); err != nil {
			return err
		}
	}
	for _, p := range r.ports {
		if err := r.addPort(p, old); err != nil {
			return fmt.Errorf("port %s: %w", p.name, err)
		}
	}
	return nil
}

// addPort attaches the program to a port, if it isn't none or there already.
func (r *Router) addPort(p port, old []port) error {
	if p == (port{}) || slices.Contains(old, p) {
		return nil
	}
	frame := packet.Port{Slot: p.slot, MACs: [2][6]byte{p.mac, p.mac}}
	if err := r.set.PutPort(p.ifindex, &frame); err != nil {
		return err
	}
	if err := r.set.PutDevice(p.slot, p.ifindex); err != nil {
		return err
	}
	return r.set.Attach(p.ifindex, bpf.Native)
}

// removePort is the way back, for a port that isn't one of the router's any more.
func (r *Router) removePort(p port) error {
	if p == (port{}) || slices.Contains(r.ports, p) {
		return nil
	}
	return errors.Join(r.set.DeleteDevice(p.slot), r.set.Detach(p.ifindex), r.set.DeletePort(p.ifindex))
}

func newPort(slot uint16, name string) (port, error) {
	dev, err := net.InterfaceByName(name)
	if err != nil {
		return port{}, err
	}
	e, err := ethtool.NewEthtool()
	if err != nil {
		return port{}, err
	}
	defer e.Close()
	c, err := e.GetChannels(name)
	if err != nil {
		return port{}, fmt.Errorf("number of queues: %w", err)
	}
	return port{slot: slot, name: name, ifindex: dev.Index, queues: int(c.RxCount + c.CombinedCount), mac: [6]byte(dev.HardwareAddr)}, nil
}

func (r *Router) addFlow(f Flow) error {
	key, err := packet.NewKey(f.In, f.From)
	if err != nil {
		return err
	}
	action, err := packet.NewAction(key, f.Out, f.To, f.MTU)
	if err != nil {
		return err
	}
	ref, err := r.table.Put(key, action)
	if err != nil {
		return err
	}
	if f.In.Tunnel != 0 {
		if err := r.set.PutTunnel(f.In.Tunnel, f.In.Local.As16(), f.In.Remote.As16()); err != nil {
			return err
		}
	}
	engine := bpf.EngineXDP
	if r.spec.AFXDP {
		engine = bpf.EngineAFXDP
	}
	return r.set.PutFlow(&key, bpf.Flow{Index: ref.Index, Gen: ref.Gen, Engine: engine, Action: &action})
}

// tick tells the program that this process is alive.
func (r *Router) tick() {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-every.C:
			r.set.Tick()
			r.garbage.Collect()
		}
	}
}

// Close takes the program off the devices, stops the workers and frees all.
func (r *Router) Close() error {
	close(r.stop)
	r.running.Wait()
	var errs []error
	for _, p := range r.ports { // from here on the kernel gets everything
		if p != (port{}) {
			errs = append(errs, r.set.DeletePort(p.ifindex))
		}
	}
	for _, c := range r.crews {
		errs = append(errs, c.end())
	}
	r.garbage.End()
	if r.set != nil {
		errs = append(errs, r.set.Close())
	}
	return errors.Join(errs...)
}

// Stats are what the router counted.
type Stats struct {
	Program [][]uint64               // packets by port, by packet.Reason
	Workers []forward.Counters       // of all that there have been, as are
	Inputs  []forward.InputCounters  // these
	Outputs []forward.OutputCounters // and these
}

// Stats may be read at any time before Close.
func (r *Router) Stats() (Stats, error) {
	st := r.past
	for slot := range r.ports {
		c, err := r.set.Counters(uint16(slot))
		if err != nil {
			return st, err
		}
		st.Program = append(st.Program, c)
	}
	for _, c := range r.crews {
		c.add(&st)
	}
	return st, nil
}
