// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"

	"fastpath/src/bpf"
	"fastpath/src/flow"
	"fastpath/src/forward"
	"fastpath/src/xsk"
)

// crew are the workers of all ports with engine afxdp. A worker has a UMEM of
// its own with a socket on some queues of each port, so a change of the ports
// is a change of all workers: they are all stopped and made anew, and meanwhile
// (some 10 ms) the program lets the packets up.
type crew struct {
	set      *bpf.Set
	table    *flow.Table
	memTotal uint64

	workers []*worker
	running sync.WaitGroup
	garbage forward.Collector
	ports   []*port // of the present workers
	procs   int     // GOMAXPROCS without the crew; 0: unchanged
	told    bool    // see tellLast
}

// worker is one worker with what belongs to it.
type worker struct {
	forward *forward.Worker
	umem    *xsk.UMEM
	sockets []socket
	inputs  []*forward.Input
	outputs []*forward.Output // by slot
}

// socket is one receive queue of a port.
type socket struct {
	*xsk.Socket
	port  *port
	queue int
	sends bool // it is also the port's output
}

// errMemory: the UMEMs are not to be had.
var errMemory = errors.New("not enough memory")

// assemble makes the workers serve exactly these ports. If that fails there
// are no workers at all; the caller tries again with the ports it had before.
func (c *crew) assemble(ports []*port) error {
	if err := c.dismiss(); err != nil {
		return err
	}
	if len(ports) == 0 {
		return nil
	}
	queues, inputs := make([]int, len(ports)), 0
	for i, p := range ports {
		queues[i] = min(p.queues, p.txQueues)
		inputs += p.queues
	}
	n := forward.NumWorkers(runtime.NumCPU(), queues...)
	ring := ringSize(c.memTotal, n, inputs, len(ports))
	if ring == 0 {
		return fmt.Errorf("%w: %d receive queues of %d ports don't fit into 1/%d of %d MB",
			errMemory, inputs, len(ports), umemShare, c.memTotal>>20)
	}
	c.ports = ports
	c.raise(n)
	c.garbage.Begin(int64(c.memTotal / goShare))
	for i := range n {
		w := &worker{}
		c.workers = append(c.workers, w)
		if err := c.hire(w, i, n, ring); err != nil {
			return errors.Join(err, c.dismiss())
		}
	}
	if err := c.connect(ring); err != nil {
		return errors.Join(err, c.dismiss())
	}
	return nil
}

// hire starts worker i of n: a UMEM, a socket for each of its receive queues,
// one of which, of each port, it also sends by.
func (c *crew) hire(w *worker, i, n, ring int) (err error) {
	inputs, slots := 0, 0
	for _, p := range c.ports {
		inputs += (p.queues - i + n - 1) / n
		slots = max(slots, int(p.slot)+1)
	}
	w.umem, err = xsk.NewUMEM(xsk.Memory{
		Frames: uint32(forward.Frames(inputs, len(c.ports), ring)), FrameSize: frameSize,
		Headroom: headroom, ZeroCopy: c.ports[0].want.ZeroCopy,
	})
	if err != nil {
		return err
	}
	pool := forward.NewPool(w.umem.Bytes(), frameSize)
	w.outputs = make([]*forward.Output, slots)
	for _, p := range c.ports {
		for queue := i; queue < p.queues; queue += n {
			if err := w.open(c.set, pool, p, queue, ring); err != nil {
				return err
			}
			if queue == i {
				s := &w.sockets[len(w.sockets)-1]
				s.sends = true
				w.outputs[p.slot] = forward.NewOutput(s.Socket, pool, ring)
			}
		}
	}
	w.forward, err = forward.NewWorker(forward.Config{
		Pool: pool, Inputs: w.inputs, Outputs: w.outputs, Flows: c.table,
	})
	if err == nil {
		c.garbage.Add(w.forward)
		c.running.Go(w.forward.Run)
	}
	return err
}

// open puts a socket on a receive queue.
func (w *worker) open(set *bpf.Set, pool *forward.Pool, p *port, queue, ring int) error {
	alive, err := set.Queue(p.slot, queue)
	if err != nil {
		return err
	}
	fill := make([]uint64, ring)
	fill = fill[:pool.Take(fill)]
	s, err := w.umem.Open(xsk.Options{
		Device: p.link.Name, Ifindex: uint32(p.link.Index), Queue: uint32(queue), Rx: uint32(ring), Tx: uint32(ring),
	}, fill)
	if err != nil {
		return err
	}
	w.sockets = append(w.sockets, socket{Socket: s, port: p, queue: queue})
	w.inputs = append(w.inputs, forward.NewInput(s, alive, pool, ring, len(fill)))
	return nil
}

// connect lets the program hand packets to the workers.
func (c *crew) connect(ring int) error {
	for _, w := range c.workers {
		for _, s := range w.sockets {
			if err := c.set.PutSocket(s.port.slot, s.queue, s.FD(), ring); err != nil {
				return err
			}
		}
	}
	return nil
}

// tellLast says once that the kernel doesn't let the workers go first.
func (c *crew) tellLast(log *slog.Logger) {
	for _, w := range c.workers {
		if !c.told && w.forward.Counters().NotFirst {
			c.told = true
			log.Warn("the workers of engine afxdp don't get the priority that they need under overload: CAP_SYS_NICE is missing, or RLIMIT_RTPRIO")
		}
	}
}

// dismiss ends all workers. Their queues' packets go up before they stop.
func (c *crew) dismiss() error {
	var errs []error
	for _, w := range c.workers {
		for _, s := range w.sockets {
			errs = append(errs, c.set.DeleteSocket(s.port.slot, s.queue))
		}
	}
	for _, w := range c.workers {
		if w.forward != nil {
			w.forward.Stop()
		}
		w.tally()
		errs = append(errs, w.free())
	}
	c.running.Wait()
	c.workers, c.ports = nil, nil
	c.garbage.End()
	c.lower()
	return errors.Join(errs...)
}

// free gives back what a worker that doesn't run has; it may be half made.
func (w *worker) free() error {
	var errs []error
	for _, s := range w.sockets {
		errs = append(errs, s.Close())
	}
	if w.umem != nil {
		errs = append(errs, w.umem.Close())
	}
	return errors.Join(errs...)
}

// raise gives the workers processors: a busy one keeps its own, and the rest of
// the daemon needs one too.
func (c *crew) raise(workers int) {
	want := max(runtime.NumCPU(), workers+1)
	if have := runtime.GOMAXPROCS(0); have < want {
		c.procs = have
		runtime.GOMAXPROCS(want)
	}
}

func (c *crew) lower() {
	if c.procs > 0 {
		runtime.GOMAXPROCS(c.procs)
		c.procs = 0
	}
}
