// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"
	"time"

	"fastpath/src/state"
)

// of is a cost of packets at ns each, in 10 s.
func of(packets uint64, ns float64) cost {
	return cost{10 * time.Second, time.Duration(float64(packets) * ns), packets}
}

func TestEarns(t *testing.T) {
	for name, tt := range map[string]struct {
		with, without cost
		want          bool
	}{
		"much less":                     {of(1e6, 300), of(1e6, 1800), true},
		"the same":                      {of(1e6, 1800), of(1e6, 1800), true},
		"within the hysteresis":         {of(1e7, 520), of(1e7, 500), true},
		"a tenth more, known well":      {of(5e8, 550), of(5e8, 500), false},
		"a tenth more, known badly":     {of(1e5, 550), of(1e5, 500), true},
		"half as much again":            {of(5e6, 1500), of(5e6, 1000), false},
		"twice, with little traffic":    {of(1e4, 4000), of(1e4, 2000), true},
		"ten times, with little":        {of(1e5, 17000), of(1e5, 1700), false},
		"both cost less than one tick":  {of(1e4, 0), of(1e4, 0), true},
		"more packets, but less of CPU": {of(2e6, 500), of(1e6, 900), true},
	} {
		if got := earns(tt.with, tt.without); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestAlike(t *testing.T) {
	for _, tt := range []struct {
		a, b uint64
		want bool
	}{{1000, 1000, true}, {1000, 2000, true}, {1000, 2001, false}, {2001, 1000, false}, {0, 1000, false}} {
		if got := alike(of(tt.a, 1), of(tt.b, 1)); got != tt.want {
			t.Errorf("%d and %d packets: %v", tt.a, tt.b, got)
		}
	}
}

// machine is a router of a test: time passes, packets come and cost.
type machine struct{ sample }

func (m *machine) run(seconds int, packetsPerSecond uint64, ns float64) {
	n := packetsPerSecond * uint64(seconds)
	m.at = m.at.Add(time.Duration(seconds) * time.Second)
	m.packets += n
	m.cpu += time.Duration(float64(n) * ns)
}

// play lets tr run until it enters a phase, or for so many seconds; samples are
// taken when it wants them, at most one a second as from the ticker. It returns
// the phase that was entered, or "".
func (m *machine) play(tr *trial, seconds int, packetsPerSecond uint64, ns float64) phase {
	for range seconds {
		m.run(1, packetsPerSecond, ns)
		if tr.due(m.at) && tr.add(m.sample) {
			return tr.phase
		}
	}
	return ""
}

func begin() (*machine, *trial) {
	m := &machine{sample{at: time.Unix(1e9, 0), cpu: time.Hour, packets: 1e9}}
	return m, newTrial(m.at)
}

func entered(t *testing.T, got, want phase) {
	t.Helper()
	if got != want {
		t.Fatalf("entered phase %q, want %q", got, want)
	}
}

func TestTrialEarned(t *testing.T) {
	m, tr := begin()
	entered(t, m.play(tr, 14, 50_000, 300), paused)
	entered(t, m.play(tr, 14, 50_000, 1800), earned)
	if tr.due(m.at.Add(time.Hour)) {
		t.Error("it wants samples although it is over")
	}
}

func TestTrialFailed(t *testing.T) {
	m, tr := begin()
	entered(t, m.play(tr, 14, 200_000, 2100), paused)
	entered(t, m.play(tr, 14, 200_000, 1600), failed)
	want := "2100 ns of CPU a packet against 1600 by the flowtable (measured over 2000000 and 2000000 packets, 10 and 10 s)"
	if got := tr.verdict("the flowtable"); got != want {
		t.Errorf("verdict %q, want %q", got, want)
	}
}

// The engine's own start, and the flows' way back to the other path, don't count.
func TestTrialSettles(t *testing.T) {
	m, tr := begin()
	m.play(tr, 2, 200_000, 90_000)
	entered(t, m.play(tr, 12, 200_000, 3000), paused)
	m.play(tr, 2, 200_000, 90_000)
	entered(t, m.play(tr, 12, 200_000, 2000), failed)
	if got := tr.with.perPacket(); got != 3000 {
		t.Errorf("measured %v ns with it", got)
	}
	if got := tr.without.perPacket(); got != 2000 {
		t.Errorf("measured %v ns without it", got)
	}
}

func TestTrialTooLittleTraffic(t *testing.T) {
	m, tr := begin()
	entered(t, m.play(tr, 3600, 100, 300), "") // 6000 in a minute
	entered(t, m.play(tr, 120, 1000, 300), paused)
	// The traffic ends in the pause: the engine comes back and is left alone for a while.
	entered(t, m.play(tr, 80, 10, 300), proving)
	entered(t, m.play(tr, 600, 1000, 300), "")
	entered(t, m.play(tr, 20, 1000, 300), paused)
	// It changes: what was measured can't be compared.
	entered(t, m.play(tr, 14, 50_000, 300), proving)
}

// Hours without flows bring no samples; then the old one is of no use.
func TestTrialAfterRest(t *testing.T) {
	m, tr := begin()
	entered(t, m.play(tr, 5, 2000, 300), "")
	m.run(7200, 100, 90_000)
	entered(t, m.play(tr, 1, 2000, 300), "")
	entered(t, m.play(tr, 20, 2000, 300), paused)
	if got := tr.with.perPacket(); got != 300 {
		t.Errorf("measured %v ns: the rest was counted", got)
	}
}

func TestKernelTime(t *testing.T) {
	const good = "cpu  10 20 300 4000 50 6 7000 80 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\nintr 5\n"
	got, err := kernelTime([]byte(good))
	if want := 7306 * 10 * time.Millisecond; err != nil || got != want {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"", "cpu", "cpu0 1 2 3 4 5 6 7", "cpu 1 2 3 4 5 6", "cpu 1 2 x 4 5 6 7 8", "cpu 1 2 3 4 5 -6 7 8"} {
		if _, err := kernelTime([]byte(bad)); err == nil {
			t.Errorf("%q has no error", bad)
		}
	}
}

// A sample of this machine: it can be read, and what is done here shows.
func TestReadSample(t *testing.T) {
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := m.readSample([]int{1})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	b := a
	for b.cpu == a.cpu && time.Now().Before(deadline) {
		if b, err = m.readSample([]int{1}); err != nil {
			t.Fatal(err)
		}
	}
	if c := b.since(a); c.cpu <= 0 || c.time <= 0 {
		t.Errorf("after some work: %+v", c)
	}
	if _, err := m.readSample([]int{1 << 30}); err == nil || !strings.Contains(err.Error(), "1073741824") {
		t.Errorf("a port that isn't there: %v", err)
	}
}

// The reasons that a trial gives go with the ports that it is about.
func TestNewTrialIsOpen(t *testing.T) {
	tr := newTrial(time.Unix(1e9, 0))
	tr.ports = []entrant{{state.Link{Name: "lan"}, state.Engine{Kind: state.EngineXDP}}}
	if !tr.open() || tr.due(time.Unix(1e9, 0)) || !tr.due(time.Unix(1e9, 0).Add(settleTime)) {
		t.Error("a new trial waits for the flows to settle, then wants a sample")
	}
}
