// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"fastpath/src/agent"
	"fastpath/src/config"
	"fastpath/src/engine"
	"fastpath/src/kernel"
	"fastpath/src/state"
)

// router is what the agent steers: the kernel's own means and our engines.
type router struct {
	*kernel.Kernel
	engines *engine.Manager
	dirs    config.Dirs // tell which bit of the ct mark is ours
	passive string      // why nothing may be accelerated (see guard); "": it may
	marks   []uint32    // bits that our rules may have set; the last one is in force
}

var _ agent.Kernel = (*router)(nil)

// Observe takes one look at both.
func (r *router) Observe(q state.Query) (state.Observed, error) {
	o, err := r.Kernel.Observe(q)
	if err != nil {
		return o, err
	}
	o.Passive = r.passive
	return o, r.engines.Observe(&o)
}

// Apply does one step.
func (r *router) Apply(step state.Step) error {
	switch s := step.(type) {
	case state.StartEngine:
		r.marks = append(slices.DeleteFunc(r.marks, func(m uint32) bool { return m == s.Want.Mark }), s.Want.Mark)
		return r.engines.Start(s.Port, s.Want)
	case state.StopEngine:
		return r.engines.Stop(s.Port)
	case state.SetDrop:
		return errors.Join(r.engines.SetDrop(s.Drop.Sets), r.Kernel.Apply(step))
	case state.RemoveDrop:
		return errors.Join(r.engines.SetDrop(nil), r.Kernel.Apply(step))
	case state.ReplaceTable, state.DeleteTable:
		return errors.Join(r.Kernel.Apply(step), r.judgeAgain())
	}
	return r.Kernel.Apply(step)
}

// judgeAgain takes back what the rules before gave to the engines: the new ones
// decide at each connection's next packet, as they do for the flowtable's flows,
// which went with the old table. Where the bit has changed, only now does nobody
// set the old one any more, which the new rules would take for another program's.
func (r *router) judgeAgain() error {
	r.engines.Flush(func(state.Flow) bool { return true })
	var errs []error
	for _, mark := range r.marks { // also that of connections which no engine carries yet
		errs = append(errs, unmark(mark))
	}
	r.marks = r.marks[max(len(r.marks), 1)-1:]
	return errors.Join(errs...)
}

// Counters samples both.
func (r *router) Counters() (state.Counters, error) {
	c, err := r.Kernel.Counters()
	if err != nil {
		return c, err
	}
	return c, r.engines.Counters(&c)
}

// Flows are those of the flowtable and of the engines.
func (r *router) Flows() ([]state.Flow, error) {
	flows, err := r.Kernel.Flows()
	return append(flows, r.engines.Flows()...), err
}

// Flush sends engine flows that match back to the slow path.
func (r *router) Flush(match func(state.Flow) bool) (int, error) {
	return r.engines.Flush(match), nil
}

// Why is the engines' word on a connection.
func (r *router) Why(proto string, src, dst netip.AddrPort) (reason string, known bool) {
	return r.engines.Why(proto, src, dst)
}

// Cleanup takes everything of ours away. The engines go first, because what they
// rely on is given back next; the rules may have set the bit until they went.
func (r *router) Cleanup() error {
	return errors.Join(r.engines.Close(), r.Kernel.Cleanup(), r.judgeAgain(), unmarkConfigured(r.dirs))
}

// unmarkConfigured clears our bit in all connections: a daemon that was killed
// leaves it behind, and flows that carry it would stay on the slow path. A
// configuration with mistakes names the bit all the same.
func unmarkConfigured(dirs config.Dirs) error {
	conf, _ := config.LoadLenient(dirs)
	return unmark(conf.Main.CTMark)
}

func unmark(mark uint32) error {
	if err := engine.Unmark(mark); err != nil {
		return fmt.Errorf("clear the bit %#x of the connections' mark: %w", mark, err)
	}
	return nil
}

// newRouter opens both.
func newRouter(k *kernel.Kernel, dirs config.Dirs, changed func(), log *slog.Logger) (*router, error) {
	m, err := engine.New(engine.Options{Log: log, Changed: changed})
	if err != nil {
		return nil, err
	}
	return &router{Kernel: k, engines: m, dirs: dirs}, nil
}
