// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"math/rand/v2"
	"testing"

	"fastpath/src/packet"
)

// Packets of a tunnel that isn't known, or has another id, have no flow.
func TestTunnels(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	f := g.flow()
	for !f.from.Src.Addr().Is4() {
		f = g.flow()
	}
	tun := tunnels[0]
	f.in = packet.Wire{Local: tun.local, Remote: tun.remote, Tunnel: tun.id}
	f.out, f.mtu, f.engine = packet.Wire{}, 1500, EngineXDP
	r := newRig(t, []*testFlow{f}, true)
	r.enter(0)
	r.set.Tick()
	frame := g.frame(f)
	put := func(id uint16, t1 refTunnel) { must(t, r.set.PutTunnel(id, t1.local.As16(), t1.remote.As16())) }

	r.want(frame, packet.Forward, "a known tunnel")
	put(tun.id, tun)
	r.want(frame, packet.Forward, "put again")
	must(t, r.set.DeleteTunnel(tun.id))
	must(t, r.set.DeleteTunnel(tun.id))
	r.want(frame, packet.OtherL4, "deleted")
	put(9, tun)
	r.want(frame, packet.NoFlow, "under another id")
	put(tun.id, tun)
	r.want(frame, packet.Forward, "under its own id again")
	must(t, r.set.DeleteTunnel(9))
	r.want(frame, packet.Forward, "the other id is gone")
	moved := tun
	moved.remote = tunnels[1].local
	put(tun.id, moved)
	r.want(frame, packet.OtherL4, "the id has other addresses")
}
