// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"fastpath/src/testkit"
	"fastpath/src/xsk"

	"golang.org/x/sys/unix"
)

// Ports with several queues: all of them are served, whatever their number, and
// no packet is lost.
func TestQueues(t *testing.T) {
	for _, queues := range [][2]int{{4, 4}, {4, 2}, {2, 1}} {
		t.Run(fmt.Sprint(queues), func(t *testing.T) {
			l, left, right := queueLab(t, queues)
			const count, each = 64, 30 // flows, packets of each
			var flows []Flow
			var ins, outs []Frame
			for i := range uint16(count) {
				in := Frame{Proto: 17, TTL: 64, Dst: l.r0, Src: l.left.MAC, From: addr(fmt.Sprint("10.0.1.2:", 1000+i)), To: addr("198.51.100.7:5000")}
				out := in
				out.Dst, out.Src, out.TTL, out.From = l.right.MAC, l.r1, 63, addr(fmt.Sprint("192.0.2.1:", 21000+i))
				ins, outs, flows = append(ins, in), append(outs, out), append(flows, l.up(in, out))
			}
			p := l.start("afxdp", flows...)
			for n := range each {
				for i, f := range ins {
					f.Payload = binary.BigEndian.AppendUint32(make([]byte, 40), uint32(n))
					left.send(f.Bytes())
					outs[i].Payload = f.Payload
				}
				right.expect(outs)
			}
			st := p.finish()
			used, total := 0, uint64(0)
			for _, in := range st.Inputs {
				total += in.Packets
				if in.Packets > 0 {
					used++
				}
			}
			if len(st.Inputs) != queues[0]+queues[1] || total != count*each || used != queues[0] {
				t.Errorf("%d inputs, %d of them used, %d packets: want %d, %d, %d",
					len(st.Inputs), used, total, queues[0]+queues[1], queues[0], count*each)
			}
		})
	}
}

// A queue that somebody else has is noticed, and the router does not start with
// the others: what came by that one would take another path for no reason.
func TestQueueTaken(t *testing.T) {
	l, _, _ := queueLab(t, [2]int{4, 4})
	u, err := xsk.NewUMEM(xsk.Memory{Frames: 64, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	var other *xsk.Socket
	l.router.Do(t, func() {
		var dev *net.Interface
		if dev, err = net.InterfaceByName("r0"); err == nil {
			other, err = u.Open(xsk.Options{Device: "r0", Ifindex: uint32(dev.Index), Queue: 3, Rx: 32, Tx: 32}, nil)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(other.Close(), u.Close()); err != nil {
			t.Error(err)
		}
	}()
	_, err = launch(t, l.router, whole, l.spec("afxdp"))
	checkLine(t, err, "r0 queue 3")
	if out := l.router.Run(t, "ip link show"); strings.Contains(out, "prog/xdp") {
		t.Error("a program was left behind:", out)
	}
}

// queueLab is a lab whose router has these numbers of queues on r0 and r1, and
// with plain packet sockets at the other ends: they spread flows over queues.
func queueLab(t *testing.T, queues [2]int) (l *lab, left, right *tap) {
	t.Helper()
	l = bareLab(t)
	multiVeth(t, l.src, "s0", l.router, "r0", queues[0])
	multiVeth(t, l.router, "r1", l.dst, "d0", queues[1])
	l.left, l.right = &Peer{MAC: mac(t, l.src, "s0")}, &Peer{MAC: mac(t, l.dst, "d0")}
	l.routes()
	return l, newTap(t, l.src, "s0"), newTap(t, l.dst, "d0")
}

func multiVeth(t *testing.T, an *testkit.Netns, a string, bn *testkit.Netns, b string, queues int) {
	t.Helper()
	n := fmt.Sprintf("numrxqueues %d numtxqueues %[1]d", queues)
	an.Run(t, fmt.Sprintf("ip link add %s %s type veth peer name %s %[2]s netns %[4]s", a, n, b, bn.Name))
	for dev, ns := range map[string]*testkit.Netns{a: an, b: bn} {
		ns.Run(t, fmt.Sprintf(`ethtool -K %[1]s tx off txvlan off rxvlan off tso off gso off >/dev/null
			echo 1 2>/dev/null > /proc/sys/net/ipv6/conf/%[1]s/disable_ipv6 || true
			ip link set %[1]s up`, dev))
	}
}

// tap is a packet socket on a device.
type tap struct {
	t   *testing.T
	fd  int
	mac [6]byte
}

func newTap(t *testing.T, n *testkit.Netns, device string) *tap {
	t.Helper()
	p := &tap{t: t, fd: -1, mac: mac(t, n, device)}
	n.Do(t, func() {
		dev, err := net.InterfaceByName(device)
		if err != nil {
			t.Fatal(err)
		}
		all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}) // in wire order
		if p.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all)); err != nil {
			t.Fatal(err)
		}
		if err := unix.Bind(p.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: dev.Index}); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { unix.Close(p.fd) })
	wait := unix.NsecToTimeval(int64(100 * time.Millisecond))
	if err := unix.SetsockoptTimeval(p.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *tap) send(frame []byte) {
	p.t.Helper()
	if _, err := unix.Write(p.fd, frame); err != nil {
		p.t.Fatal(err)
	}
}

// expect receives just these frames, in any order, in a minute at most.
func (p *tap) expect(frames []Frame) {
	p.t.Helper()
	want := map[string]bool{}
	for _, f := range frames {
		want[string(f.Bytes())] = true
	}
	buf := make([]byte, 2048)
	for deadline := time.Now().Add(time.Minute); len(want) > 0; {
		if time.Now().After(deadline) {
			p.t.Fatalf("%d frames did not arrive", len(want))
		}
		n, err := unix.Read(p.fd, buf)
		if err != nil || !bytes.Equal(buf[:6], p.mac[:]) {
			continue // nothing for now, or not for this end
		}
		if !want[string(buf[:n])] {
			p.t.Fatalf("a frame that should not be: %s", dump(buf[:n]))
		}
		delete(want, string(buf[:n]))
	}
}
