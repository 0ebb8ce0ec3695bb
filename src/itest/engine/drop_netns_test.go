// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"fastpath/src/packet"
)

// What a listed source sends doesn't reach the kernel, also behind a VLAN tag, nor in
// what no flow could carry. What its neighbour sends does, and a flow is forwarded.
func TestDropList(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *lab, engine string) {
		known, flow := traffic(l)
		spec := l.spec(engine, flow)
		spec.Drop = [][2][4]byte{{{10, 0, 1, 3}, {10, 0, 1, 3}}, {{10, 0, 1, 66}, {10, 0, 1, 70}}}
		p, err := launch(t, l.router, whole, spec)
		if err != nil {
			t.Fatal(err)
		}
		until(l, known, "the known flow", true)
		listed, free := known, known
		listed.From, free.From = addr("10.0.1.66:1001"), addr("10.0.1.71:1001")
		const id = 0xd7
		listed.Payload, free.Payload = []byte{id, 1: 1}, []byte{id, 1: 2}
		ping, tagged := listed, listed
		ping.Proto, tagged.VLANs = 1, []uint16{7}
		for range 10 {
			send(t, l.left, listed.Bytes(), ping.Bytes(), tagged.Bytes())
		}
		send(t, l.left, free.Bytes())
		got := collect(t, l.right, 1, func(f []byte) bool { return len(f) > 43 && (f[23] == 1 || f[42] == id) })
		if len(got) != 1 || got[0][23] != packet.UDP || got[0][43] != 2 {
			t.Errorf("came through: %x", got)
		}
		if n := p.finish().Program[0][packet.DropList]; n != 30 {
			t.Errorf("%d of 30 packets were dropped", n)
		}
	})
}
