// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"fastpath/src/packet"
)

// While a flow is exchanged again and again, and its slots are used for others,
// each packet is handled by an action that was its own.
func TestExchange(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(5, 6))}
	flows := g.flows(8)
	for _, f := range flows {
		f.in.Port, f.engine, f.mtu = 0, EngineXDP, 1500
		f.out.Port = 0
	}
	flows = slices.DeleteFunc(flows, func(f *testFlow) bool { return f.from != flows[0].from })[:1]
	other := g.flow()
	other.in.Port, other.out.Port, other.engine, other.mtu = 0, 0, EngineXDP, 1500
	r := newRig(t, []*testFlow{flows[0], other}, true)
	r.enter(0)
	frame := g.frame(flows[0])
	a, _ := refParse(frame, r.in, tunnels)
	changed := *flows[0]
	changed.out, changed.to = g.wire(), changed.from
	changed.out.Port = 0
	action, err := packet.NewAction(changed.key, changed.out, changed.to, 1500)
	must(t, err)
	wanted := [][]byte{frame, refBuild(a, flows[0]), refBuild(a, &changed)}

	stop, done := make(chan struct{}), make(chan error)
	go func() { done <- exchange(r.set, flows[0], other, &action, stop) }()
	var seen [3]int
	for i := range 20000 {
		r.set.Tick()
		_, _, after := run(t, r.set, frame)
		which := slices.IndexFunc(wanted, func(w []byte) bool { return slices.Equal(w, after) })
		if which < 0 {
			t.Fatalf("run %d: a frame that nobody ordered:\n%x", i, after)
		}
		seen[which]++
	}
	close(stop)
	must(t, <-done)
	t.Logf("passed %d, old action %d, new action %d", seen[0], seen[1], seen[2])
}

func exchange(s *Set, f, other *testFlow, changed *packet.Action, stop chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		err := errors.Join(
			s.PutFlow(&f.key, Flow{0, 0, EngineXDP, changed}),
			s.DeleteFlow(&other.key),
			s.PutFlow(&f.key, Flow{0, 0, EngineXDP, &f.action}),
			s.PutFlow(&other.key, Flow{0, 0, EngineXDP, &other.action}))
		if i%8 == 0 {
			err = errors.Join(err, s.DeleteFlow(&f.key))
		}
		if err != nil {
			return err
		}
	}
}
