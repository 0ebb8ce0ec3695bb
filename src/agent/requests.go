// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"fastpath/src/state"
	"fastpath/src/status"
)

// do runs f in the loop.
func (a *Agent) do(f func()) error {
	done := make(chan struct{})
	run := func() {
		defer close(done)
		f()
	}
	select {
	case a.requests <- run:
		<-done
		return nil
	case <-a.stopped:
		return errStopping
	}
}

// Status answers the control socket.
func (a *Agent) Status() (doc status.Document, err error) {
	err = a.do(func() {
		asked := time.Now()
		if time.Since(a.meter.Last()) > sampleFresh {
			if err := a.sample(); err != nil {
				a.Log.Warn("counters", "error", err)
			}
		}
		if a.meter.Last().Before(asked) { // else the sample has just told
			if err := a.countDrops(); err != nil {
				a.Log.Warn("counters", "error", err)
			}
		}
		doc = a.document()
	})
	return doc, err
}

// Flows answers the control socket. Flows of others' flowtables are not ours
// to list.
func (a *Agent) Flows() (flows []state.Flow, err error) {
	stopping := a.do(func() {
		if a.carried == nil {
			return
		}
		flows, err = a.Kernel.Flows()
		if len(a.carried.devices) == 0 {
			flows = slices.DeleteFunc(flows, func(f state.Flow) bool { return f.Engine == state.EngineFlowtable })
		}
	})
	return flows, errors.Join(stopping, err)
}

// Explain answers the control socket.
func (a *Agent) Explain(t status.Tuple) (e status.Explanation, err error) {
	stopping := a.do(func() { e, err = a.explain(t) })
	return e, errors.Join(stopping, err)
}

func (a *Agent) explain(t status.Tuple) (status.Explanation, error) {
	c := status.Case{Mark: a.conf.Main.CTMark, Table: a.table, Report: a.report, Others: a.others(), InSet: a.Kernel.InSet}
	n, err := a.Kernel.Connection(t.Proto, t.Ends[0], t.Ends[1])
	switch {
	case errors.Is(err, state.ErrNoConnection):
		return c.Explain(), nil
	case err != nil:
		return status.Explanation{}, err
	}
	c.Connection = &n
	if n.Mark&c.Mark != 0 {
		c.Why, c.WhyKnown = a.Kernel.Why(n.Proto, endOf(n.Orig.Src, n.Orig.SrcPort), endOf(n.Orig.Dst, n.Orig.DstPort))
	}
	if c.WhyKnown && c.Why == "" {
		if c.Carried, err = a.carriedFlow(n.Flow); err != nil {
			return status.Explanation{}, err
		}
	}
	return c.Explain(), nil
}

// others are the tables of other programs that have flowtables.
func (a *Agent) others() (tables []string) {
	if a.seen.FW4.Offload {
		tables = append(tables, "inet fw4")
	}
	for _, f := range a.seen.Flowtables {
		if !slices.Contains(tables, f.Table) {
			tables = append(tables, f.Table)
		}
	}
	return tables
}

// carriedFlow finds the engine's flow of a connection; nil: it has just left.
func (a *Agent) carriedFlow(n state.Flow) (*state.Flow, error) {
	flows, err := a.Kernel.Flows()
	if err != nil {
		return nil, err
	}
	same := func(x, y state.Tuple) bool {
		return x.Src == y.Src && x.Dst == y.Dst && x.SrcPort == y.SrcPort && x.DstPort == y.DstPort
	}
	for i := range flows {
		f := &flows[i]
		if f.Engine != state.EngineFlowtable && f.Proto == n.Proto && same(f.Orig, n.Orig) {
			return f, nil
		}
	}
	return nil, nil
}

func endOf(addr string, port uint16) netip.AddrPort {
	a, _ := netip.ParseAddr(addr) // the kernel's, never wrong
	return netip.AddrPortFrom(a, port)
}

// Flush answers the control socket.
func (a *Agent) Flush(match func(state.Flow) bool) (f status.Flushed, err error) {
	stopping := a.do(func() {
		if match != nil {
			f.Filtered = true
			f.Engines, err = a.Kernel.Flush(match)
			return
		}
		if f, err = a.flushAll(); err == nil {
			a.Log.Info("flushed on request", "engine flows", f.Engines, "flowtable flows", f.Flowtable)
		}
	})
	return f, errors.Join(stopping, err)
}

// flushAll also makes the table anew as it is in the kernel: a flowtable's
// flows can't be flushed otherwise.
func (a *Agent) flushAll() (f status.Flushed, err error) {
	if f.Engines, err = a.Kernel.Flush(func(state.Flow) bool { return true }); err != nil {
		return f, err
	}
	if a.carried == nil || len(a.carried.devices) == 0 {
		return f, nil
	}
	flows, err := a.Kernel.Connections()
	if err != nil {
		return f, err
	}
	o, err := a.Kernel.Observe(state.Query{HookNumber: a.conf.Main.HookNumber})
	if err != nil {
		return f, err
	}
	if o.Table == nil {
		return f, errors.New("the table of ours is gone; it comes back with the next look")
	}
	step := state.ReplaceTable{Table: *o.Table}
	if a.table == nil || !state.SameRules(a.table.Rules, o.Table.Rules) {
		a.Look()
		return f, errors.New("the rules aren't those of the last look: try again")
	}
	step.Table.Rules = a.table.Rules // the kernel knows their identities only
	if err := a.Kernel.Apply(step); err != nil {
		a.Look()
		return f, fmt.Errorf("flush: %w", err)
	}
	f.Flowtable = len(flows)
	a.rebase()
	return f, nil
}

// Notify answers the control socket: it says why to look, and the look finds
// out what is new.
func (a *Agent) Notify(kind string, values map[string]string) {
	a.Log.Debug("notify", "kind", kind, "values", values)
	a.Look()
}

var _ status.Handler = (*Agent)(nil)
