// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What takes which path is told by the source port at the sink: the engines' NAT
// makes 21001 of 1001, the kernel's masquerade keeps it.
const (
	fastPort = 21001
	slowPort = 1001
)

// traffic is the test flow's frame and its flow.
func traffic(l *lab) (Frame, Flow) {
	in := Frame{Proto: 17, TTL: 64, Dst: l.r0, Src: l.left.MAC, From: addr("10.0.1.2:1001"), To: addr("198.51.100.7:5000"), Payload: make([]byte, 64)}
	out := in
	out.From = addr("192.0.2.1:21001")
	return in, l.up(in, out)
}

// volley sends ten frames and returns how many of them arrived by which path.
func volley(l *lab, f Frame, id byte) (fast, slow int) {
	l.t.Helper()
	f.Payload = []byte{id, 1: 0, 63: 0}
	frames := make([][]byte, 10)
	for i := range frames {
		frames[i] = f.Bytes()
	}
	send(l.t, l.left, frames...)
	for deadline := time.Now().Add(200 * time.Millisecond); fast+slow < 10 && time.Now().Before(deadline); {
		got, err := l.right.Receive(20 * time.Millisecond)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, b := range got {
			if len(b) < 60 || b[42] != id {
				continue // of an earlier volley
			}
			switch binary.BigEndian.Uint16(b[34:]) {
			case fastPort:
				fast++
			case slowPort:
				slow++
			}
		}
	}
	return fast, slow
}

// until sends volleys until one arrives in full by the wanted path, and logs
// how long that took and what was lost in between.
func until(l *lab, f Frame, what string, fast bool) {
	l.t.Helper()
	begin, lost := time.Now(), 0
	for id := byte(1); time.Since(begin) < time.Minute; id++ {
		nf, ns := volley(l, f, id)
		if fast && nf == 10 || !fast && ns == 10 {
			l.t.Logf("%s: after %v, %d frames lost before", what, time.Since(begin).Round(time.Millisecond), lost)
			return
		}
		lost += 10 - nf - ns
	}
	l.t.Fatalf("%s: did not happen within a minute, %d frames lost", what, lost)
}

// However the forwarding process ends or hangs, the kernel takes over.
func TestFailover(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *lab, engine string) {
		f, flow := traffic(l)
		until(l, f, "slow path before the start", false)
		p := l.start(engine, flow)
		until(l, f, "fast path after the start", true)
		p.signal(unix.SIGSTOP)
		until(l, f, "slow path after SIGSTOP", false)
		p.signal(unix.SIGCONT)
		until(l, f, "fast path after SIGCONT", true)
		p.Kill()
		until(l, f, "slow path after kill -9", false)
		p = l.start(engine, flow)
		until(l, f, "fast path after a restart", true)
		p.finish()
		until(l, f, "slow path after an orderly end", false)
	})
}

// A link that goes down and comes back needs nobody's help.
func TestLinkFlap(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *lab, engine string) {
		f, flow := traffic(l)
		p := l.start(engine, flow)
		until(l, f, "fast path", true)
		for range 3 {
			l.router.Run(t, "ip link set r1 down")
			if fast, _ := volley(l, f, 200); fast != 0 {
				t.Errorf("%d frames through a link that is down", fast)
			}
			l.router.Run(t, "ip link set r1 up")
			until(l, f, "fast path after the link is back", true)
		}
		p.finish()
	})
}
