// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"fastpath/src/testkit"
)

// returns is how often the connection goes back to the slow path.
const returns = 20

// A TCP connection survives the return to the slow path at any moment: it is
// neither reset nor stuck, and every byte arrives.
func TestTCPSurvives(t *testing.T) {
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, engine)
			l.kernelHosts()
			l.startDaemon()
			c := dial(t, l.a.ns, l.g.ns, "192.0.2.9:7000")
			both := []*transfer{c.transfer(c.client, c.server), c.transfer(c.server, c.client)}
			rng := rand.New(rand.NewPCG(uint64(len(engine)), 1))
			carried := 0
			for range returns {
				carried += sendBack(l, rng)
				for _, tr := range both {
					tr.alive(t)
				}
			}
			if carried < returns/2 {
				t.Errorf("the engine had the connection at only %d of %d moments", carried, returns)
			}
			for _, tr := range both {
				tr.end(t)
				t.Logf("%d MB arrived right; in the engine at %d of %d moments", tr.got.Load()>>20, carried, returns)
			}
			l.stopDaemon()
		})
	}
}

// sendBack waits for the engine to take the connection, and a random moment
// longer, and does something that sends it back. It returns 1 if the engine had it.
func sendBack(l *lab, rng *rand.Rand) (carried int) {
	l.Helper()
	if l.carries("tcp", 5*time.Second) {
		carried = 1
	}
	time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
	switch rng.IntN(4) {
	case 0:
		l.flush()
	case 1:
		l.stopDaemon()
		l.startDaemon()
	case 2:
		l.killDaemon()
		l.startDaemon()
	case 3:
		l.pause(flap)
		l.flush()
	}
	return carried
}

// carries waits until the engine has a flow of the protocol, for so long at most.
func (l *lab) carries(proto string, most time.Duration) bool {
	l.Helper()
	for deadline := time.Now().Add(most); l.daemon != nil && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if len(l.flows(proto, "engine", l.engine)) > 0 {
			return true
		}
	}
	return false
}

// kernelHosts gives the kernels at the ends their addresses.
func (l *lab) kernelHosts() {
	l.Helper()
	l.a.ns.Run(l, "ip addr add 10.0.1.2/24 dev a0; ip route add default via 10.0.1.1")
	l.g.ns.Run(l, "ip addr add 192.0.2.9/24 dev g0")
}

// connection is TCP between two namespaces.
type connection struct{ client, server net.Conn }

func dial(t testing.TB, from, to *testkit.Netns, addr string) (c connection) {
	t.Helper()
	var listener net.Listener
	var err error
	to.Do(t, func() { listener, err = net.Listen("tcp4", addr) })
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	from.Do(t, func() { c.client, err = net.DialTimeout("tcp4", addr, patience) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.client.Close() })
	if c.server, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.server.Close() })
	return c
}

// transfer sends a known stream in one direction of a connection.
type transfer struct {
	got  atomic.Int64
	stop atomic.Bool
	err  chan error // of the receiver; nil at the end
}

// chunk is sent every 2 ms: 8 MB/s, many windows between two moments.
const chunk = 16 << 10

// content is what stands at an offset, which is a multiple of 8.
func content(at int64) []byte {
	b := make([]byte, chunk)
	for i := range b {
		b[i] = byte((at + int64(i)) * 2654435761 >> 13)
	}
	return b
}

func (c connection) transfer(from, to net.Conn) *transfer {
	tr := &transfer{err: make(chan error, 1)}
	go func() {
		for at := int64(0); !tr.stop.Load(); at += chunk {
			if _, err := from.Write(content(at)); err != nil {
				return // the receiver tells
			}
			time.Sleep(2 * time.Millisecond)
		}
		from.(*net.TCPConn).CloseWrite()
	}()
	go func() { tr.err <- tr.receive(to) }()
	return tr
}

func (tr *transfer) receive(to net.Conn) error {
	buf := make([]byte, chunk)
	for at := int64(0); ; at += chunk {
		n, err := io.ReadFull(to, buf)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("at byte %d: %w", at+int64(n), err)
		}
		if !bytes.Equal(buf, content(at)) {
			return fmt.Errorf("wrong bytes after byte %d", at)
		}
		tr.got.Add(chunk)
	}
}

// alive wants more to arrive.
func (tr *transfer) alive(t testing.TB) {
	t.Helper()
	before := tr.got.Load()
	eventually(t, fmt.Sprintf("TCP goes on after %d bytes", before), func() bool {
		select {
		case err := <-tr.err:
			t.Fatalf("TCP ended: %v", err)
		default:
		}
		return tr.got.Load() > before
	})
}

func (tr *transfer) end(t testing.TB) {
	t.Helper()
	tr.stop.Store(true)
	select {
	case err := <-tr.err:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Errorf("TCP doesn't end after %d bytes", tr.got.Load())
	}
}
