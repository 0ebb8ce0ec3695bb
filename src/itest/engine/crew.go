// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"runtime"

	"fastpath/src/bpf"
	"fastpath/src/flow"
	"fastpath/src/forward"
	"fastpath/src/xsk"
)

const frameSize = 2048

// crew is a worker and all that it has to itself.
type crew struct {
	set     *bpf.Set
	garbage *forward.Collector
	ring    int
	umem    *xsk.UMEM
	pool    *forward.Pool
	sockets []socket
	inputs  []*forward.Input
	outputs []*forward.Output // by slot
	worker  *forward.Worker
}

type socket struct {
	*xsk.Socket
	slot  uint16
	queue int
}

// muster rebuilds the crews for the router's ports, one after the other.
func (r *Router) muster() error {
	var queues []int
	for _, p := range r.ports {
		if p != (port{}) {
			queues = append(queues, p.queues)
		}
	}
	n := forward.NumWorkers(runtime.NumCPU(), queues...)
	old := r.crews
	r.crews = nil
	if n != len(old) { // a queue may get another worker: end all first
		if err := r.retire(old); err != nil {
			return err
		}
		old = nil
	}
	// A busy worker doesn't let others in. (It doesn't change while workers run.)
	runtime.GOMAXPROCS(max(runtime.NumCPU(), n+1))
	for i := range n {
		if i < len(old) {
			if err := r.retire(old[i : i+1]); err != nil {
				return err
			}
		}
		c := &crew{set: r.set, garbage: &r.garbage, ring: r.spec.Ring}
		r.crews = append(r.crews, c)
		if err := c.start(r.ports, r.table, i, n); err != nil {
			return err
		}
	}
	return nil
}

// retire ends crews and keeps what they counted.
func (r *Router) retire(crews []*crew) (err error) {
	for _, c := range crews {
		err = errors.Join(err, c.end())
		c.add(&r.past)
	}
	return err
}

// start is for crew i of n.
func (c *crew) start(ports []port, flows *flow.Table, i, n int) (err error) {
	inputs := 0
	for _, p := range ports {
		inputs += (p.queues - i + n - 1) / n // of i, i+n, i+2n …
	}
	frames := forward.Frames(inputs, len(ports), c.ring)
	if c.umem, err = xsk.NewUMEM(xsk.Memory{Frames: uint32(frames), FrameSize: frameSize}); err != nil {
		return err
	}
	c.pool = forward.NewPool(c.umem.Bytes(), frameSize)
	c.outputs = make([]*forward.Output, len(ports))
	for _, p := range ports {
		for queue := i; queue < p.queues; queue += n {
			if err := c.open(p, queue); err != nil {
				return err
			}
			if queue == i {
				c.outputs[p.slot] = forward.NewOutput(c.sockets[len(c.sockets)-1], c.pool, c.ring)
			}
		}
	}
	c.worker, err = forward.NewWorker(forward.Config{Pool: c.pool, Inputs: c.inputs, Outputs: c.outputs, Flows: flows})
	if err != nil {
		return err
	}
	c.garbage.Add(c.worker)
	go c.worker.Run()
	for _, s := range c.sockets {
		if err := c.set.PutSocket(s.slot, s.queue, s.FD(), c.ring); err != nil {
			return err
		}
	}
	return nil
}

// open opens the socket of a port's queue and makes an input of it.
func (c *crew) open(p port, queue int) error {
	fill := make([]uint64, c.ring)
	fill = fill[:c.pool.Take(fill)]
	s, err := c.umem.Open(xsk.Options{
		Device: p.name, Ifindex: uint32(p.ifindex), Queue: uint32(queue), Rx: uint32(c.ring), Tx: uint32(c.ring),
	}, fill)
	if err != nil {
		return err
	}
	c.sockets = append(c.sockets, socket{s, p.slot, queue})
	alive, err := c.set.Queue(p.slot, queue)
	if err != nil {
		return err
	}
	c.inputs = append(c.inputs, forward.NewInput(s, alive, c.pool, c.ring, len(fill)))
	return nil
}

// end sends the queues' packets up, forwards what is there, and frees all.
func (c *crew) end() error {
	var errs []error
	for _, s := range c.sockets {
		errs = append(errs, c.set.DeleteSocket(s.slot, s.queue))
	}
	if c.worker != nil {
		c.worker.Stop()
	}
	for _, s := range c.sockets {
		errs = append(errs, s.Close())
	}
	if c.umem != nil {
		errs = append(errs, c.umem.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("end a worker: %w", err)
	}
	return nil
}

func (c *crew) add(st *Stats) {
	if c.worker != nil {
		st.Workers = append(st.Workers, c.worker.Counters())
	}
	for _, in := range c.inputs {
		st.Inputs = append(st.Inputs, in.Counters())
	}
	for _, o := range c.outputs {
		if o != nil {
			st.Outputs = append(st.Outputs, o.Counters())
		}
	}
}
