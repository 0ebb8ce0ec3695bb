// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"fastpath/src/packet"
	"fastpath/src/testkit"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inVeth runs f in a namespace with a pair of veth devices, whose first has ifindex.
func inVeth(t *testing.T, f func(ifindex int)) {
	ns := testkit.NewNetns(t, "bpf")
	ns.Run(t, "ip link add va type veth peer name vb\nip link set va up\nip link set vb up")
	ns.Do(t, func() {
		dev, err := net.InterfaceByName("va")
		must(t, err)
		f(dev.Index)
	})
}

func programID(t *testing.T, s *Set) uint32 {
	t.Helper()
	prog := s.program.handle(t)
	defer prog.Close()
	info, err := prog.Info()
	must(t, err)
	id, _ := info.ID()
	return uint32(id)
}

func TestAttach(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		s := loadSet(t, 1)
		inVeth(t, func(ifindex int) {
			must(t, s.Attach(ifindex, mode))
			if err := s.Attach(ifindex, mode); !errors.Is(err, ErrAttached) {
				t.Errorf("attached twice: %v", err)
			}
			if got, want := attachedID(ifindex), programID(t, s); got != want {
				t.Errorf("program %d is attached, want %d", got, want)
			}
			must(t, s.Detach(ifindex))
			must(t, s.Detach(ifindex))
			waitDetached(t, ifindex)
		})
	}
}

// waitDetached: the kernel takes a closed link off when it gets to it.
func waitDetached(t *testing.T, ifindex int) {
	t.Helper()
	for range 500 {
		if attachedID(ifindex) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("program %d is still attached", attachedID(ifindex))
}

// Other people's programs stay, however they were attached and in whichever mode.
func TestAttachForeign(t *testing.T) {
	s, other := loadSet(t, 1), loadSet(t, 1)
	id := programID(t, other)
	check := func(ifindex int) {
		for _, mode := range []Mode{Native, Generic} {
			var foreign *ForeignError
			err := s.Attach(ifindex, mode)
			if !errors.As(err, &foreign) || foreign.ID != id || foreign.Ifindex != ifindex || strings.Contains(err.Error(), "\n") {
				t.Errorf("mode %d over program %d: %v", mode, id, err)
			}
			if got := attachedID(ifindex); got != id {
				t.Errorf("mode %d over program %d: now %d is attached", mode, id, got)
			}
		}
	}
	inVeth(t, func(ifindex int) {
		for _, mode := range []Mode{Native, Generic} {
			must(t, other.Attach(ifindex, mode))
			check(ifindex)
			must(t, other.Detach(ifindex))
			waitDetached(t, ifindex)
		}
		l, err := netlink.LinkByIndex(ifindex)
		must(t, err)
		must(t, netlink.LinkSetXdpFd(l, int(other.program)))
		check(ifindex)
		must(t, netlink.LinkSetXdpFd(l, -1))
		must(t, s.Attach(ifindex, Native))
	})
}

func TestAttachRefused(t *testing.T) {
	s := loadSet(t, 1)
	inVeth(t, func(ifindex int) {
		l, err := netlink.LinkByIndex(ifindex)
		must(t, err)
		peer, err := netlink.LinkByName("vb")
		must(t, err)
		must(t, netlink.LinkSetMTU(peer, 9000))
		if err := s.Attach(ifindex, Native); !errors.Is(err, ErrTooBig) {
			t.Errorf("MTU 9000: %v", err)
		}
		must(t, netlink.LinkSetMTU(peer, 1500))
		if err := s.Attach(loopback, Native); !errors.Is(err, ErrMode) {
			t.Errorf("loopback: %v", err)
		}
		must(t, s.Attach(ifindex, Native))
		must(t, netlink.LinkDel(l))
		must(t, s.Detach(ifindex))
		if err := s.Attach(ifindex, Native); !errors.Is(err, unix.ENODEV) {
			t.Errorf("a device that is gone: %v", err)
		}
	})
}

// Close detaches. (That the kernel does so when the process dies is for the
// engines' tests, which have a process to kill.)
func TestCloseDetaches(t *testing.T) {
	inVeth(t, func(ifindex int) {
		s, err := Load(Options{MaxFlows: 1})
		must(t, err)
		must(t, s.Attach(ifindex, Native))
		must(t, s.Close())
		waitDetached(t, ifindex)
	})
}

// A frame that comes in is counted, so the program really runs there.
func TestAttachedProgramRuns(t *testing.T) {
	s := loadSet(t, 1)
	inVeth(t, func(ifindex int) {
		must(t, s.Attach(ifindex, Native))
		in := port(1)
		must(t, s.PutPort(ifindex, &in))
		peer, err := net.InterfaceByName("vb")
		must(t, err)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		must(t, err)
		defer unix.Close(fd)
		const multicast = 2
		for range 500 {
			must(t, unix.Sendto(fd, append([]byte{1}, make([]byte, 59)...), 0, &unix.SockaddrLinklayer{Ifindex: peer.Index}))
			n, err := s.Counters(1)
			must(t, err)
			if n[multicast] > 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Error("no frame was counted")
	})
}

// What would leave by a device that is gone goes up, whoever tells us or not.
func TestOutputVanishes(t *testing.T) {
	for _, e := range []Engine{EngineXDP, EngineAFXDP} {
		inVeth(t, func(ifindex int) {
			r, frame := oneFlow(t, e)
			must(t, r.set.PutDevice(0, ifindex))
			r.set.Tick()
			r.want(frame, packet.Forward, "with the output device")
			dev, err := netlink.LinkByIndex(ifindex)
			must(t, err)
			must(t, netlink.LinkDel(dev))
			r.set.Tick()
			r.want(frame, packet.NoOutput, "when the output device is gone")
		})
	}
}
