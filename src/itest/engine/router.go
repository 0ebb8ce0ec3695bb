// SPDX-License-Identifier: Apache-2.0

// Package engine is a router of static Actions on either engine, for the tests
// beside it and for the benchmark; and the frames that they send.
package engine

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"fastpath/src/bpf"
	"fastpath/src/flow"
	"fastpath/src/forward"
	"fastpath/src/packet"
	"fastpath/src/xsk"
)

// Spec is a router: JSON, so that it can be handed to another process.
type Spec struct {
	AFXDP   bool // else the engine is xdp
	Devices []string
	Flows   []Flow
	Nice    int
	Ring    int // slots of each ring; 0: 512
}

// Flow is one direction of a flow; Wire.Port is the index in Devices.
type Flow struct {
	In, Out  packet.Wire
	From, To packet.Tuple
	MTU      uint16
}

const frameSize = 2048

// Router forwards until Close.
type Router struct {
	set      *bpf.Set
	attached []int // ifindexes
	umem     *xsk.UMEM
	pool     *forward.Pool
	table    *flow.Table
	sockets  []*xsk.Socket
	outputs  []*forward.Output
	workers  []*forward.Worker
	running  sync.WaitGroup
	stop     chan struct{}
}

// Start makes the router in the current network namespace: queue 0 of each device.
func Start(s Spec) (*Router, error) {
	if s.Ring == 0 {
		s.Ring = 512
	}
	r := &Router{stop: make(chan struct{}), table: flow.New(len(s.Flows) + 1)}
	if err := r.start(s); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Router) start(s Spec) (err error) {
	if r.set, err = bpf.Load(bpf.Options{MaxFlows: uint32(len(s.Flows) + 1)}); err != nil {
		return err
	}
	var devices []*net.Interface
	for _, name := range s.Devices {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("port %s: %w", name, err)
		}
		devices = append(devices, dev)
	}
	if s.AFXDP {
		if err := r.startWorkers(s, devices); err != nil {
			return err
		}
	}
	for slot, dev := range devices {
		if err := r.addPort(uint16(slot), dev); err != nil {
			return fmt.Errorf("port %s: %w", dev.Name, err)
		}
	}
	for i, f := range s.Flows {
		if err := r.addFlow(f, s.AFXDP); err != nil {
			return fmt.Errorf("flow %d: %w", i, err)
		}
	}
	r.set.Tick()
	r.running.Go(r.tick)
	return nil
}

func (r *Router) addPort(slot uint16, dev *net.Interface) error {
	p := packet.Port{Slot: slot}
	copy(p.MACs[0][:], dev.HardwareAddr)
	p.MACs[1] = p.MACs[0]
	if err := r.set.PutPort(dev.Index, &p); err != nil {
		return err
	}
	r.attached = append(r.attached, dev.Index)
	if err := r.set.PutDevice(slot, dev.Index); err != nil {
		return err
	}
	return r.set.Attach(dev.Index, bpf.Native)
}

func (r *Router) addFlow(f Flow, afxdp bool) error {
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
	engine := bpf.EngineXDP
	if afxdp {
		engine = bpf.EngineAFXDP
	}
	return r.set.PutFlow(&key, bpf.Flow{Index: ref.Index, Gen: ref.Gen, Engine: engine, Action: &action})
}

// startWorkers opens a socket on each device and starts its worker.
func (r *Router) startWorkers(s Spec, devices []*net.Interface) error {
	n, ring := len(devices), s.Ring
	frames := uint32(forward.Frames(n, ring, n, ring))
	var err error
	if r.umem, err = xsk.NewUMEM(xsk.Memory{Frames: frames, FrameSize: frameSize}); err != nil {
		return err
	}
	r.pool = forward.NewPool(frames, frameSize)
	for slot, dev := range devices {
		fill := make([]uint64, ring)
		fill = fill[:r.pool.Take(fill)]
		sock, err := r.umem.Open(xsk.Options{
			Device: dev.Name, Ifindex: uint32(dev.Index), Rx: uint32(ring), Tx: uint32(ring),
		}, fill)
		if err != nil {
			return err
		}
		r.sockets = append(r.sockets, sock)
		if err := r.set.PutSocket(uint16(slot), 0, sock.FD()); err != nil {
			return err
		}
		r.outputs = append(r.outputs, forward.NewOutput(sock, r.pool, ring))
	}
	for slot, sock := range r.sockets {
		alive, err := r.set.Queue(uint16(slot), 0)
		if err != nil {
			return err
		}
		w, err := forward.NewWorker(forward.Config{
			In: sock, Filled: ring, Ring: ring, Alive: alive, Memory: r.umem.Bytes(), FrameSize: frameSize,
			Pool: r.pool, Outputs: r.outputs, Flows: r.table, Nice: s.Nice,
		})
		if err != nil {
			return err
		}
		r.workers = append(r.workers, w)
		r.running.Go(w.Run)
	}
	return nil
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
		}
	}
}

// Close takes the program off the devices, stops the workers and frees all.
func (r *Router) Close() error {
	close(r.stop)
	var errs []error
	for _, ifindex := range r.attached { // from here on the kernel gets everything
		errs = append(errs, r.set.DeletePort(ifindex))
	}
	for _, w := range r.workers {
		w.Stop()
	}
	r.running.Wait()
	for _, s := range r.sockets {
		errs = append(errs, s.Close())
	}
	if r.umem != nil {
		errs = append(errs, r.umem.Close())
	}
	if r.set != nil {
		errs = append(errs, r.set.Close())
	}
	return errors.Join(errs...)
}

// Stats are what the router counted.
type Stats struct {
	Program [][]uint64 // packets by port, by packet.Reason
	Workers []forward.Counters
	Outputs []forward.OutputCounters
}

// Stats may be read at any time before Close.
func (r *Router) Stats(ports int) (Stats, error) {
	var st Stats
	for slot := range ports {
		c, err := r.set.Counters(uint16(slot))
		if err != nil {
			return st, err
		}
		st.Program = append(st.Program, c)
	}
	for _, w := range r.workers {
		st.Workers = append(st.Workers, w.Counters())
	}
	for _, o := range r.outputs {
		st.Outputs = append(st.Outputs, o.Counters())
	}
	return st, nil
}
