// SPDX-License-Identifier: Apache-2.0

// Package traffic sends known bytes through a router and checks each of them
// at the other end.
//
// A Transfer has two parts: the first WarmPackets packets, in which the
// router learns the flow, and the rest, which is what gets measured. Between the
// two the caller reads its counters.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"fastpath/src/testkit"
)

// WarmPackets is how many full packets go before the measured part.
const WarmPackets = 100

// payload is what a packet carries: it fits a PPPoE link's MTU of 1492 with
// the headers of IPv6 and TCP with time stamps.
const payload = 1400

// Transfer is one flow between a client and a server, and what it carries.
type Transfer struct {
	Client, Server *testkit.Netns
	Addr           netip.Addr // the server's
	Port           uint16     // the server's
	UDP            bool       // else TCP
	Up             bool       // the client sends; else the server
	Bytes          int64      // payload of the measured part
	// Steady is called when all of the first part has arrived, before the
	// second is sent; nil: nothing to do.
	Steady func() error
	// Progress is called about once a second with the measured bytes received
	// so far; nil: nobody looks.
	Progress func(received int64)
}

// Result is the measured part.
type Result struct {
	Sent, Received int64         // payload bytes; a UDP packet that was lost is missing in Received
	Gap            time.Duration // longest time without data at the receiver
	Elapsed        time.Duration
}

// MostSlow is how many bytes may take the slow path where a transfer of some
// megabytes counts as accelerated: one percent, and once what is in flight
// while the kernel takes a flow off (a neighbour was looked up anew, say) and
// learns it again.
func (r Result) MostSlow() int64 { return r.Sent/100 + 64<<10 }

// String is the transfer in words: "TCP up IPv4".
func (t Transfer) String() string {
	proto, way, family := "TCP", "down", "IPv6"
	if t.UDP {
		proto = "UDP"
	}
	if t.Up {
		way = "up"
	}
	if t.Addr.Is4() {
		family = "IPv4"
	}
	return fmt.Sprintf("%s %s %s", proto, way, family)
}

// Run does the transfer. Wrong or missing bytes over TCP and wrong bytes over
// UDP are errors; lost UDP packets are the caller's to judge.
func (t Transfer) Run(ctx context.Context) (Result, error) {
	var watching sync.WaitGroup
	defer watching.Wait() // after cancel: Progress isn't called once Run has returned
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &meter{}
	if t.Progress != nil {
		watching.Go(func() { m.watch(ctx, t.Progress) })
	}
	run := t.runTCP
	if t.UDP {
		run = t.runUDP
	}
	sent, err := run(ctx, m)
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", t, err)
	}
	return m.result(sent), nil
}

func (t Transfer) steady(m *meter) error {
	if t.Steady != nil {
		if err := t.Steady(); err != nil {
			return err
		}
	}
	m.begin()
	return nil
}

// meter is the receiver's side of a Result.
type meter struct {
	mu          sync.Mutex
	received    int64
	start, last time.Time
	gap         time.Duration
}

// begin is called before the measured part is sent.
func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.start = time.Now()
	m.last = m.start
}

// count is called for each piece of the measured part.
func (m *meter) count(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.gap = max(m.gap, now.Sub(m.last))
	m.last = now
	m.received += int64(n)
}

func (m *meter) result(sent int64) Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Result{Sent: sent, Received: m.received, Gap: m.gap, Elapsed: m.last.Sub(m.start)}
}

func (m *meter) watch(ctx context.Context, progress func(int64)) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			progress(m.result(0).Received)
		}
	}
}

// pattern is what is sent. Its period is a prime, so that a packet in the
// wrong place doesn't look right.
const period = 65521

var pattern = func() []byte {
	b := make([]byte, period, period+maxChunk)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return append(b, b[:maxChunk]...)
}()

// maxChunk is the longest piece that at returns.
const maxChunk = 32 << 10

// at is the n bytes at an offset of the endless pattern.
func at(offset int64, n int) []byte {
	i := offset % period
	return pattern[i : i+int64(n)]
}
