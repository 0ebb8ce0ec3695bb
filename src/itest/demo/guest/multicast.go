// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"fastpath/src/itest/topo"
	"fastpath/src/testkit"
)

// Multicast routing in the kernel's words (include/uapi/linux/mroute.h).
const (
	mrtInit, mrtAddVIF, mrtAddMFC = 200, 202, 204
	vifUseIfindex                 = 8
)

type vifctl struct {
	vif       uint16
	flags     uint8
	threshold uint8
	rateLimit uint32
	ifindex   int32
	remote    [4]byte
}

type mfcctl struct {
	origin, group [4]byte
	parent        uint16
	ttls          [32]uint8
	_             [18]byte // padding, counters, expire
}

// proxy does what igmpproxy does for one channel: it joins it at the WAN and has
// it sent on to the LAN, by the kernel or, where that can't, by itself.
type proxy struct {
	router *testkit.Netns
	fd     int
	relay  *net.UDPConn // nil: the kernel forwards
	out    *net.UDPConn
}

func (p *proxy) String() string {
	if p.relay != nil {
		return "it has joined " + channel + " at wan and copies its packets to br-lan (this kernel has no IP_MROUTE)"
	}
	return "it has joined " + channel + " at wan, and the kernel forwards it to br-lan (IP_MROUTE)"
}

func startProxy(router *testkit.Netns, wan, lan string) (p *proxy, err error) {
	p = &proxy{router: router, fd: -1}
	err = router.Inside(func() error {
		up, err := net.InterfaceByName(wan)
		if err != nil {
			return err
		}
		down, err := net.InterfaceByName(lan)
		if err != nil {
			return err
		}
		err = p.route(up.Index, down.Index)
		if errors.Is(err, unix.ENOPROTOOPT) {
			return p.copy(up, down)
		}
		return err
	})
	if err != nil {
		p.close()
		return nil, fmt.Errorf("multicast proxy: %w", err)
	}
	return p, nil
}

// route joins the channel and has the kernel forward it.
func (p *proxy) route(wan, lan int) (err error) {
	if p.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_IGMP); err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := unix.SetsockoptInt(p.fd, unix.IPPROTO_IP, mrtInit, 1); err != nil {
		return os.NewSyscallError("MRT_INIT", err)
	}
	for i, ifindex := range []int{wan, lan} {
		v := vifctl{vif: uint16(i), flags: vifUseIfindex, threshold: 1, ifindex: int32(ifindex)}
		if err := p.set(mrtAddVIF, unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))); err != nil {
			return os.NewSyscallError("MRT_ADD_VIF", err)
		}
	}
	m := mfcctl{group: netip.MustParseAddr(channel).As4(), origin: netip.MustParseAddr(topo.ProviderWANv4).As4()}
	m.ttls[1] = 1
	if err := p.set(mrtAddMFC, unsafe.Slice((*byte)(unsafe.Pointer(&m)), unsafe.Sizeof(m))); err != nil {
		return os.NewSyscallError("MRT_ADD_MFC", err)
	}
	join := &unix.IPMreqn{Multiaddr: netip.MustParseAddr(channel).As4(), Ifindex: int32(wan)}
	return os.NewSyscallError("IP_ADD_MEMBERSHIP", unix.SetsockoptIPMreqn(p.fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, join))
}

func (p *proxy) set(option int, value []byte) error {
	return unix.SetsockoptString(p.fd, unix.IPPROTO_IP, option, string(value))
}

// copy does it packet by packet.
func (p *proxy) copy(wan, lan *net.Interface) (err error) {
	group := &net.UDPAddr{IP: net.ParseIP(channel), Port: channelPort}
	if p.relay, err = net.ListenMulticastUDP("udp4", wan, group); err != nil {
		return err
	}
	if err := roomy(p.relay); err != nil {
		return err
	}
	if p.out, err = sender(lan.Index); err != nil {
		return err
	}
	go func() {
		buf := make([]byte, 2048)
		for {
			n, _, err := p.relay.ReadFromUDP(buf)
			if err != nil {
				return
			}
			p.out.WriteToUDP(buf[:n], group)
		}
	}()
	return nil
}

func (p *proxy) close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
	}
	for _, c := range []*net.UDPConn{p.relay, p.out} {
		if c != nil {
			c.Close()
		}
	}
}

// sender is a socket whose multicast leaves by a device.
func sender(ifindex int) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		ctlErr := raw.Control(func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(ifindex)}),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, 8))
		})
		return errors.Join(err, ctlErr)
	}}
	c, err := lc.ListenPacket(context.Background(), "udp4", ":0")
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// roomy gives a socket room for seconds of the channel, whatever the machine does meanwhile.
func roomy(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	ctlErr := raw.Control(func(fd uintptr) {
		err = os.NewSyscallError("SO_RCVBUFFORCE", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20))
	})
	return errors.Join(err, ctlErr)
}

// tv is a channel on air and a host that watches it.
type tv struct {
	from, to *net.UDPConn
	running  sync.WaitGroup
	sent     uint64
	seen     watched
	err      error
}

// watched is what arrived. Numbers are those of the packets.
type watched struct{ received, lost, outOfOrder uint64 }

// watch puts the channel on air. The host joins it first.
func watch(provider, host *testkit.Netns) (t *tv, err error) {
	t = &tv{}
	group := &net.UDPAddr{IP: net.ParseIP(channel), Port: channelPort}
	err = host.Inside(func() error {
		eth0, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		if t.to, err = net.ListenMulticastUDP("udp4", eth0, group); err != nil {
			return err
		}
		return roomy(t.to)
	})
	if err != nil {
		return nil, err
	}
	err = provider.Inside(func() error {
		line, err := net.InterfaceByName("line")
		if err != nil {
			return err
		}
		t.from, err = sender(line.Index)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, t.to.Close())
	}
	t.running.Go(func() { t.send(group) })
	t.running.Go(t.receive)
	return t, nil
}

// send sends what is due each millisecond, until the socket is closed.
func (t *tv) send(group *net.UDPAddr) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	buf := make([]byte, tvPacket)
	for start := time.Now(); ; <-tick.C {
		for due := uint64(time.Since(start).Seconds() * tvRate); t.sent < due; t.sent++ {
			binary.BigEndian.PutUint64(buf, t.sent)
			if _, err := t.from.WriteToUDP(buf, group); err != nil {
				return
			}
		}
	}
}

func (t *tv) receive() {
	buf := make([]byte, tvPacket+1)
	for next := uint64(0); ; {
		n, _, err := t.to.ReadFromUDP(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.seen.lost = t.sent - t.seen.received
			return
		}
		if err != nil || n != tvPacket {
			t.err = fmt.Errorf("the TV box: %d bytes, %w", n, err)
			return
		}
		number := binary.BigEndian.Uint64(buf)
		if number < next {
			t.seen.outOfOrder++
		}
		next = max(next, number+1)
		t.seen.received++
	}
}

// stop takes the channel off the air and says what arrived of it.
func (t *tv) stop() (watched, error) {
	t.from.Close()
	t.to.SetReadDeadline(time.Now().Add(2 * time.Second)) // what is on the way arrives
	t.running.Wait()
	t.to.Close()
	return t.seen, t.err
}
