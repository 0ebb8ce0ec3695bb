// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"fastpath/src/packet"
	"fastpath/src/testkit"

	"golang.org/x/sys/unix"
)

// lab is three namespaces:
//
//	left              router                    right
//	s0 ─────────── r0        r1 ─────────────── d0
//	10.0.1.2       10.0.1.1  192.0.2.1          192.0.2.2 → 198.51.100.0/24
//
// The router's kernel forwards and masquerades behind r1, so what takes the slow
// path arrives too, from another source port than the engines' NAT gives it.
type lab struct {
	t           *testing.T
	src, dst    *testkit.Netns
	router      *testkit.Netns
	left, right *Peer
	r0, r1      [6]byte // MACs
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := bareLab(t)
	testkit.Veth(t, l.src, "s0", l.router, "r0")
	testkit.Veth(t, l.router, "r1", l.dst, "d0")
	l.left, l.right = peer(t, l.src, "s0"), peer(t, l.dst, "d0")
	l.routes()
	return l
}

// bareLab is one without devices.
func bareLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, src: testkit.NewNetns(t, "left"), router: testkit.NewNetns(t, "router"), dst: testkit.NewNetns(t, "right")}
	testkit.Need(t, hasAFXDP(), "this kernel has no AF_XDP")
	return l
}

// routes makes the router's kernel forward.
func (l *lab) routes() {
	t := l.t
	t.Helper()
	l.r0, l.r1 = mac(t, l.router, "r0"), mac(t, l.router, "r1")
	l.router.Run(t, `
		sysctl -qw net.ipv4.ip_forward=1
		ip addr add 10.0.1.1/24 dev r0
		ip addr add 192.0.2.1/24 dev r1
		ip route add 198.51.100.0/24 via 192.0.2.2
		ip neigh add 10.0.1.2 dev r0 nud permanent lladdr `+net.HardwareAddr(l.left.MAC[:]).String()+`
		ip neigh add 192.0.2.2 dev r1 nud permanent lladdr `+net.HardwareAddr(l.right.MAC[:]).String()+`
		nft add table ip nat
		nft 'add chain ip nat postrouting { type nat hook postrouting priority 100 ; }'
		nft add rule ip nat postrouting oifname r1 masquerade`)
}

func hasAFXDP() bool {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW, 0)
	if err == nil {
		unix.Close(fd)
	}
	return !errors.Is(err, unix.EAFNOSUPPORT)
}

func peer(t *testing.T, n *testkit.Netns, device string) (p *Peer) {
	t.Helper()
	var err error
	n.Do(t, func() { p, err = NewPeer(device) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Do(t, func() { err = p.Close() })
		if err != nil {
			t.Error(err)
		}
	})
	return p
}

func mac(t *testing.T, n *testkit.Netns, device string) (m [6]byte) {
	t.Helper()
	n.Do(t, func() {
		dev, err := net.InterfaceByName(device)
		if err != nil {
			t.Fatal(err)
		}
		copy(m[:], dev.HardwareAddr)
	})
	return m
}

// start launches a router of flows on r0 and r1.
func (l *lab) start(engine string, flows ...Flow) process {
	l.t.Helper()
	p, err := launch(l.t, l.router, whole, l.spec(engine, flows...))
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

func (l *lab) spec(engine string, flows ...Flow) Spec {
	return Spec{AFXDP: engine == "afxdp", Devices: []string{"r0", "r1"}, Flows: flows}
}

// up is the flow of frames like f from left to right, which leave as like g.
func (l *lab) up(f, g Frame) Flow {
	return Flow{In: l.wire(0, f, l.left.MAC, l.r0), Out: l.wire(1, g, l.right.MAC, l.r1),
		From: packet.Tuple{Proto: f.Proto, Src: f.From, Dst: f.To}, To: packet.Tuple{Proto: g.Proto, Src: g.From, Dst: g.To}, MTU: 1500}
}

// down is the same from right to left.
func (l *lab) down(f, g Frame) Flow {
	fl := l.up(f, g)
	fl.In, fl.Out = l.wire(1, f, l.right.MAC, l.r1), l.wire(0, g, l.left.MAC, l.r0)
	return fl
}

func (l *lab) wire(port uint16, f Frame, peer, own [6]byte) packet.Wire {
	w := packet.Wire{Port: port, Session: f.Session, Peer: peer, Own: own}
	for _, id := range f.VLANs {
		w.VLANs = append(w.VLANs, packet.VLAN{Type: packet.TypeVLAN, ID: id})
	}
	if f.QinQ {
		w.VLANs[0].Type = packet.TypeQinQ
	}
	if f.Outer[0].IsValid() {
		w.Local, w.Remote, w.Tunnel = b4, aftr, 7
	}
	return w
}

// The ends of the DS-Lite tunnel on the router's right, ours first.
var b4, aftr = netip.MustParseAddr("2001:db8:2::b4"), netip.MustParseAddr("2001:db8:ffff::1")

// collect receives at p until n frames that match have come, or for at most a minute.
func collect(t *testing.T, p *Peer, n int, match func([]byte) bool) (frames [][]byte) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(frames) < n && time.Now().Before(deadline); {
		got, err := p.Receive(100 * time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range got {
			if match(f) {
				frames = append(frames, f)
			}
		}
	}
	return frames
}

func send(t *testing.T, p *Peer, frames ...[]byte) {
	t.Helper()
	if err := p.Send(frames...); err != nil {
		t.Fatal(err)
	}
}

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func dump(b []byte) string { return "\n" + hex.Dump(b) }

func eachEngine(t *testing.T, f func(t *testing.T, l *lab, engine string)) {
	for _, engine := range []string{"xdp", "afxdp"} {
		t.Run(engine, func(t *testing.T) { f(t, newLab(t), engine) })
	}
}
