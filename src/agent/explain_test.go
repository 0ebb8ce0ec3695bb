// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"fastpath/src/state"
	"fastpath/src/status"
)

func (r *rig) explain(words string) (e status.Explanation, err error) {
	r.t.Helper()
	tuple, err := status.ParseTuple(strings.Fields(words))
	if err != nil {
		r.t.Fatal(err)
	}
	r.k.meanwhile(func() { e, err = r.a.Explain(tuple) })
	return e, err
}

func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		conn := func(src string, mark uint32) state.Connection {
			return state.Connection{Status: state.StatusSeenReply, InDevice: "eth0", OutDevice: "eth1",
				Flow: state.Flow{Proto: "udp", Mark: mark,
					Orig:  state.Tuple{Src: src, Dst: "198.51.100.2", SrcPort: 1, DstPort: 2},
					Reply: state.Tuple{Src: "198.51.100.2", Dst: src, SrcPort: 2, DstPort: 1}}}
		}
		const bit = 0x40000000
		k.conns = []state.Connection{conn("192.0.2.1", bit), conn("192.0.2.2", bit), conn("192.0.2.3", 0), conn("192.0.2.4", bit), conn("192.0.2.5", 0x11)}
		k.why = map[string]string{"192.0.2.1": "", "192.0.2.2": "no route back", "192.0.2.4": ""}
		carried := k.conns[0].Flow
		carried.Engine, carried.In, carried.Out = state.EngineXDP, "eth0", "eth1"
		k.flows = []state.Flow{k.conns[2].Flow, carried}
		r := start(t, k, withEngines)
		for _, c := range []struct{ src, path, text string }{
			{"192.0.2.1", state.EngineXDP, "By engine xdp, from eth0 to eth1"},
			{"192.0.2.2", status.PathSlow, "but no route back"},
			{"192.0.2.3", status.PathSlow, "next packet"},
			{"192.0.2.4", status.PathSlow, "about to take it"}, // it left between two questions
			{"192.0.2.5", status.PathSlow, "mark 0x11"},
			{"192.0.2.6", status.PathNone, "no such connection"},
		} {
			for _, words := range []string{"udp " + c.src + ":1 198.51.100.2:2", "198.51.100.2:2 udp " + c.src + ":1"} {
				e, err := r.explain(words)
				if err != nil || e.Path != c.path || !strings.Contains(e.Text, c.text) {
					t.Errorf("%s: %+v, %v; want path %s, %q", words, e, err, c.path, c.text)
				}
			}
		}
		for _, call := range []string{"Connection", "Flows"} {
			k.always[call] = errors.New("Zonk")
			if _, err := r.explain("udp 192.0.2.1:1 198.51.100.2:2"); err == nil || !strings.Contains(err.Error(), "Zonk") {
				t.Errorf("%s fails: %v", call, err)
			}
			delete(k.always, call)
		}
		r.write(strings.Replace(enabled, "enabled '1'", "enabled '0'", 1))
		r.a.Reload()
		r.pass(0)
		if e, err := r.explain("udp 192.0.2.3:1 198.51.100.2:2"); err != nil || !strings.Contains(e.Text, "nothing is accelerated: not enabled") {
			t.Errorf("disabled: %+v, %v", e, err)
		}
		r.stop()
	})
}
