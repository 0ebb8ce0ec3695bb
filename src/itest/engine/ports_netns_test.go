// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"testing"
	"time"

	"fastpath/src/testkit"
)

// Ports come and go under traffic between others: each packet arrives, by the
// engine or, while a worker is rebuilt, by the kernel; at most the packets that
// were in a ring at the moment are lost.
func TestPortsComeAndGo(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *lab, engine string) {
		testkit.Veth(t, l.router, "r2", l.dst, "d2")
		f, flow := traffic(l)
		p := l.start(engine, flow)
		until(l, f, "fast path", true)
		stream := stream{l: l, frame: f}
		const changes = 6
		for i := range changes {
			third := "r2"
			if i%2 == 1 {
				third = ""
			}
			done := make(chan error, 1)
			go func() { done <- p.Devices("r0", "r1", third) }()
			for changed := false; !changed; {
				stream.run(50)
				select {
				case err := <-done:
					if changed = true; err != nil {
						t.Fatal(err)
					}
				default:
				}
			}
		}
		stream.check(changes)
		until(l, f, "fast path in the end", true)
		p.finish()
	})
}

// stream is packets with numbers, one after the other.
type stream struct {
	l          *lab
	frame      Frame
	sent       int
	fast, slow int
	disorder   int
	last       uint32
}

// run sends n packets and takes what arrives.
func (s *stream) run(n int) {
	s.l.t.Helper()
	for range n {
		s.sent++
		s.frame.Payload = make([]byte, 64)
		s.frame.Payload[0] = streamID
		binary.BigEndian.PutUint32(s.frame.Payload[4:], uint32(s.sent))
		send(s.l.t, s.l.left, s.frame.Bytes())
		s.take(time.Millisecond)
	}
}

// streamID is not a volley's: those count from 1.
const streamID = 250

func (s *stream) take(timeout time.Duration) {
	s.l.t.Helper()
	got, err := s.l.right.Receive(timeout)
	if err != nil {
		s.l.t.Fatal(err)
	}
	for _, b := range got {
		if len(b) < 60 || b[42] != streamID {
			continue
		}
		if n := binary.BigEndian.Uint32(b[46:]); n <= s.last {
			s.disorder++
		} else {
			s.last = n
		}
		switch binary.BigEndian.Uint16(b[34:]) {
		case fastPort:
			s.fast++
		case slowPort:
			s.slow++
		}
	}
}

// check waits for the rest; at most lost packets may be missing.
func (s *stream) check(lost int) {
	s.l.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); s.fast+s.slow < s.sent && time.Now().Before(deadline); {
		s.take(10 * time.Millisecond)
	}
	s.l.t.Logf("%d packets: %d by the engine, %d by the kernel, %d out of order", s.sent, s.fast, s.slow, s.disorder)
	if s.fast+s.slow < s.sent-lost || s.fast+s.slow > s.sent || s.fast == 0 {
		s.l.t.Errorf("%d of %d packets arrived, %d of them by the engine", s.fast+s.slow, s.sent, s.fast)
	}
}

// A port whose link is down costs the packets for it, and nobody else's.
func TestDeadPortDelaysNobody(t *testing.T) {
	l := newLab(t)
	testkit.Veth(t, l.router, "r2", l.dst, "d2")
	f, flow := traffic(l)
	dead := f
	dead.From = addr("10.0.1.2:1002")
	toDead := l.up(dead, dead)
	toDead.Out.Port, toDead.Out.Own = 2, mac(t, l.router, "r2")
	spec := l.spec("afxdp", flow, toDead)
	spec.Devices = append(spec.Devices, "r2")
	p, err := launch(t, l.router, whole, spec)
	if err != nil {
		t.Fatal(err)
	}
	until(l, f, "fast path", true)
	l.router.Run(t, "ip link set r2 down")
	dead.Payload = make([]byte, 64)
	stream := stream{l: l, frame: f}
	const rounds = 300
	for range rounds {
		var burst [][]byte
		for range 20 {
			burst = append(burst, dead.Bytes())
		}
		send(t, l.left, burst...)
		stream.run(1)
	}
	stream.check(0)
	if stream.slow+stream.disorder != 0 {
		t.Errorf("%d packets took the slow path, %d came out of order", stream.slow, stream.disorder)
	}
	st := p.finish()
	if o := st.Outputs[2]; o.Down < rounds*20-512 || o.Down+o.Queued != rounds*20 {
		t.Errorf("the dead port's output: %+v, of %d packets", o, rounds*20)
	}
}
