// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fastpath/src/state"
	"fastpath/src/status"
)

func TestKind(t *testing.T) {
	window := func(forwarded, local, flows float64) portShare {
		return portShare{packets: mixPackets, received: 1e7, forwarded: forwarded * 1e7, local: local * 1e7, flows: flows}
	}
	few := window(0.9, 0.1, 1)
	few.packets--
	for _, tt := range []struct {
		name   string
		window portShare
		want   state.MixKind
	}{
		{"idle", portShare{}, ""},
		{"too few packets", few, ""},
		{"one flow", window(1, 0, 1), state.MixFew},
		{"two flows", window(0.9, 0.1, 2), state.MixFew},
		{"between few and many", window(0.9, 0.1, 3), ""},
		{"many flows", window(0.9, 0.1, 4), state.MixMany},
		{"half local", window(0.5, 0.5, 16), state.MixMany},
		{"between forwarded and local", window(0.4, 0.6, 16), ""},
		{"mostly local", window(0.25, 0.75, 60), state.MixLocal},
		{"all local", window(0, 1, 0), state.MixLocal},
		{"by the slow path only", window(1, 0, 0), ""},
		{"mostly unknown", window(0.4, 0.1, 16), ""},
		{"all unknown", window(0, 0, 0), ""},
	} {
		if got := tt.window.kind(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// interval is ten seconds of one port's traffic.
func interval(local, flows int) status.Delta {
	const bytes = 20_000_000
	forwarded := uint64(bytes * (100 - local) / 100)
	d := status.Delta{Seconds: 10, Counted: true, Stack: uint64(bytes * local / 100), Known: status.Volume{Packets: 1, Bytes: forwarded},
		Ports: map[string]state.PortCounters{"wan": rx(20_000, bytes+14*20_000)}}
	d.Top = flowsOf(flows, status.Volume{}, status.Volume{Bytes: forwarded / uint64(max(flows, 1))})
	return d
}

// A mix that moves is followed once; one that wavers never.
func TestMixerHolds(t *testing.T) {
	links := []state.Link{{Index: 5, Name: "wan"}}
	for _, tt := range []struct {
		name string
		next func(i int, r *rand.Rand) status.Delta
		want string
	}{
		{"steady", func(int, *rand.Rand) status.Delta { return interval(2, 40) }, "many"},
		{"moves", func(i int, _ *rand.Rand) status.Delta { return interval(2+96*(i/100), 40) }, "many local"},
		{"moves and back", func(i int, _ *rand.Rand) status.Delta { return interval(2+96*(i/70%2), 40) }, "many local many"},
		{"short bursts", func(i int, _ *rand.Rand) status.Delta { return interval(2+96*(i%3/2), 40) }, ""},
		{"every other", func(i int, _ *rand.Rand) status.Delta { return interval(2, 2+38*(i%2)) }, ""},
		{"noise between the bounds", func(_ int, r *rand.Rand) status.Delta { return interval(51+r.IntN(23), 1+r.IntN(60)) }, ""},
		{"noise around a bound", func(_ int, r *rand.Rand) status.Delta { return interval(45+r.IntN(25), 16+r.IntN(40)) }, "many"},
	} {
		var m mixer
		r := rand.New(rand.NewPCG(1, 4))
		var got []string
		for i := range 200 {
			settled, err := m.add(tt.next(i, r), status.Share{Flows: status.Volume{Packets: 1}}, links, placed("lan", "wan"))
			if err != nil {
				t.Fatal(err)
			}
			for range settled {
				got = append(got, string(m.ports["wan"].Kind))
			}
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, s, tt.want)
		}
	}
}

// A mix that comes and goes is followed less and less.
func TestMixerSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links := []state.Link{{Index: 5, Name: "wan"}}
		var m mixer
		var moves []int // in each hour
		for i := range 3 * 360 {
			if i%360 == 0 {
				moves = append(moves, 0)
			}
			settled, err := m.add(interval(2+96*(i/6%2), 40), status.Share{}, links, placed("lan", "wan"))
			if err != nil {
				t.Fatal(err)
			}
			moves[len(moves)-1] += len(settled)
			time.Sleep(10 * time.Second)
		}
		// A mix that holds for a minute has six windows, so at most four moves an hour are followed.
		if moves[0] != 4 || moves[1] > 4 || moves[2] > 4 {
			t.Errorf("%d moves in the three hours of traffic that moves each minute", moves)
		}
	})
}

// Small intervals add up to a window; a port that has changed starts anew; a
// device keeps its multicast TV for an hour.
func TestMixerMemory(t *testing.T) {
	links := []state.Link{{Index: 5, Name: "wan"}}
	var m mixer
	add := func(n int, d status.Delta) (settled int) {
		for range n {
			s, err := m.add(d, status.Share{Flows: status.Volume{Packets: 1}}, links, placed("lan", "wan"))
			if err != nil {
				t.Fatal(err)
			}
			settled += len(s)
		}
		return settled
	}
	short := interval(98, 1)
	short.Seconds = 2
	if n := add(14, short); n != 0 {
		t.Errorf("settled after 28 s")
	}
	if n := add(1, short); n != 1 || m.ports["wan"].Kind != state.MixLocal {
		t.Errorf("not settled after 30 s: %+v", m.ports["wan"])
	}
	links[0].Queues = 4
	add(1, short)
	if k := m.ports["wan"].Kind; k != "" {
		t.Errorf("the port has changed and is still %q", k)
	}
	start := time.Now()
	m.multicast(start, map[string]string{"wan": "group 232.0.0.1 is joined"})
	tv := m.multicast(start.Add(30*time.Minute), map[string]string{"wan": "group 232.0.0.2 is joined"})
	if tv["wan"] != "group 232.0.0.1 is joined" {
		t.Errorf("the reason changes with the channel: %q", tv)
	}
	if tv = m.multicast(start.Add(89*time.Minute), nil); len(tv) != 1 {
		t.Errorf("forgotten within the hour: %q", tv)
	}
	if tv = m.multicast(start.Add(91*time.Minute), nil); len(tv) != 0 {
		t.Errorf("remembered for over an hour: %q", tv)
	}
}

func (k *fake) setOffloads(s state.SetOffloads) error {
	l := k.link(s.Port)
	if l == nil {
		return errGone
	}
	if _, ok := k.o.Saved[s.Port]; !ok {
		k.o.Saved[s.Port] = l.Feature.Offloads()
	}
	l.Feature.GRO.On, l.Feature.GROList.On = s.Want.GRO, s.Want.GROList
	return nil
}

func (k *fake) Place(flows []state.Flow) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range flows {
		flows[i].In, flows[i].Out = "eth0", "eth1"
	}
	return k.call("Place")
}

// load is traffic of the fake: each second so many packets, of 1000 bytes, come in by
// each port, of which so many percent are local; softirqs take so many ticks.
type load struct {
	local, flows int
	packets      uint64
	ticks        uint64
}

func (r *rig) load(l load, d time.Duration) {
	for range int(d / time.Second) {
		forwarded := l.packets * uint64(100-l.local) / 100
		ports := map[string]state.PortCounters{}
		for name, p := range r.k.counters.Ports {
			p.RxPackets += l.packets
			p.RxBytes += l.packets * 1014
			ports[name] = p
		}
		r.k.counters.Ports = ports
		r.k.counters.StackBytes += l.packets * uint64(l.local) / 100 * 1000 * uint64(len(ports))
		for len(r.k.flows) < l.flows {
			r.k.flows = append(r.k.flows, state.Flow{Engine: state.EngineFlowtable, Proto: "tcp", Counted: !r.hidden,
				Orig: state.Tuple{Src: "192.168.1.2", SrcPort: uint16(len(r.k.flows))}})
		}
		r.k.flows = r.k.flows[:l.flows]
		for i := range r.k.flows {
			f, n := &r.k.flows[i], forwarded/uint64(l.flows)
			f.Orig.Packets, f.Orig.Bytes = f.Orig.Packets+n, f.Orig.Bytes+1000*n
			f.Reply.Packets, f.Reply.Bytes = f.Reply.Packets+n, f.Reply.Bytes+1000*n
		}
		r.ticks += l.ticks
		text := fmt.Sprintf("cpu0 0 0 0 0 0 0 %d 0 0 0\n", r.ticks)
		if err := os.WriteFile(r.a.stat, []byte(text), 0o600); err != nil {
			r.t.Fatal(err)
		}
		r.pass(time.Second)
	}
}

func startMix(t *testing.T) *rig {
	k := newEarlyFake()
	k.counters.Ports = map[string]state.PortCounters{"eth0": {}, "eth1": {}}
	r := start(t, k, enabled)
	r.a.stat = filepath.Join(t.TempDir(), "stat")
	return r
}

func (r *rig) receive() (hook state.Hook, modes, reason string) {
	d := r.status()
	for _, p := range d.Report.Ports {
		modes += p.Receive + " "
		reason += p.ReceiveReason + "\n"
	}
	return d.Report.Hook, modes, reason
}

// The traffic moves and is followed once, not twice; and back.
func TestMixIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startMix(t)
		r.load(load{local: 2, flows: 40, packets: 2000, ticks: 10}, 5*time.Minute)
		if hook, modes, reason := r.receive(); hook != state.HookEarly || modes != "bulk bulk " || !strings.Contains(reason, "many flows") {
			t.Errorf("many flows: %s, %s: %s", hook, modes, reason)
		}
		r.k.applied = nil
		r.load(load{local: 95, flows: 20, packets: 2000, ticks: 10}, 20*time.Minute)
		if hook, modes, reason := r.receive(); hook != state.HookIngress || modes != "fraglist fraglist " || !strings.Contains(reason, "95 %") {
			t.Errorf("mostly local: %s, %s: %s", hook, modes, reason)
		}
		if n := r.tables(); n != 1 {
			t.Errorf("the table was installed %d times, want once: %q", n, r.k.applied)
		}
		r.k.applied = nil
		r.load(load{local: 2, flows: 40, packets: 2000, ticks: 10}, 20*time.Minute)
		if hook, _, _ := r.receive(); hook != state.HookEarly || r.tables() != 1 {
			t.Errorf("many flows again: %s, %q", hook, r.k.applied)
		}
		r.k.applied = nil
		r.load(load{flows: 1, packets: 1}, time.Hour) // an idle router keeps what it has
		if hook, _, _ := r.receive(); hook != state.HookEarly || len(r.k.applied) > 0 {
			t.Errorf("idle: %s, %q", hook, r.k.applied)
		}
		r.stop()
	})
}

func (r *rig) tables() (n int) {
	for _, s := range r.k.applied {
		if strings.HasPrefix(s, "install table") {
			n++
		}
	}
	return n
}

// What is unknown moves nothing: flows that aren't counted would seem to be local.
func TestMixUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startMix(t)
		r.hidden = true
		r.load(load{local: 2, flows: 2, packets: 2000, ticks: 10}, 10*time.Minute)
		if hook, _, _ := r.receive(); hook != state.HookEarly || r.tables() != 1 {
			t.Errorf("hook %s, %q", hook, r.k.applied)
		}
		r.stop()
	})
}

// Short flows, which end between two samples, are nobody's.
func TestMixShortFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startMix(t)
		for range 60 {
			r.load(load{flows: 40, packets: 2000, ticks: 10}, 9*time.Second)
			r.load(load{flows: 1, packets: 1}, time.Second)
		}
		if hook, _, reason := r.receive(); hook != state.HookEarly || r.tables() != 1 {
			t.Errorf("hook %s, %q: %s", hook, r.k.applied, reason)
		}
		r.stop()
	})
}

// Without early_ingress the traffic is told, and nothing is done.
func TestMixWithoutEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		k.counters.Ports = map[string]state.PortCounters{"eth0": {}, "eth1": {}}
		r := start(t, k, enabled)
		r.a.stat = filepath.Join(t.TempDir(), "stat")
		r.load(load{local: 95, flows: 1, packets: 2000, ticks: 10}, 10*time.Minute)
		if _, modes, reason := r.receive(); modes != "keep keep " || len(k.applied) != 1 || !strings.Contains(reason, "95 %") {
			t.Errorf("%s, %s, %q", modes, reason, k.applied)
		}
		r.stop()
	})
}

// Samples go with the minute's look; they come every ten seconds while the
// traffic seems to move or a change is compared.
func TestMixSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startMix(t)
		many := load{local: 2, flows: 40, packets: 2000, ticks: 10}
		r.load(many, 5*time.Minute) // hook confirmed, mix settled
		samples := func(l load, d time.Duration) int {
			before := r.k.calls["Connections"]
			r.load(l, d)
			return r.k.calls["Connections"] - before
		}
		if n := samples(many, 10*time.Minute); n > 11 {
			t.Errorf("%d samples in 10 minutes of steady traffic", n)
		}
		if n := samples(load{flows: 1, packets: 1}, 10*time.Minute); n > 11 {
			t.Errorf("%d samples in 10 minutes of an idle router", n)
		}
		local := load{local: 95, flows: 20, packets: 2000, ticks: 10}
		if n := samples(local, 3*time.Minute); n < 6 || n > 13 {
			t.Errorf("%d samples in the 3 minutes of a move and its comparison", n)
		}
		if n := samples(local, 10*time.Minute); n > 11 {
			t.Errorf("%d samples in the 10 minutes after it", n)
		}
		r.stop()
	})
}
