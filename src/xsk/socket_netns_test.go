// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"bytes"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fastpath/src/testkit"

	"golang.org/x/sys/unix"
)

const frame = 2048

// pair makes one namespace with the veth pair left and right in it, and returns
// the options for a socket on queue 0 of each.
func pair(t *testing.T) (*testkit.Netns, Options, Options) {
	t.Helper()
	n := testkit.NewNetns(t, "xsk")
	testkit.Veth(t, n, "left", n, "right")
	opts := map[string]Options{}
	n.Do(t, func() {
		fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW, 0)
		testkit.Need(t, !errors.Is(err, unix.EAFNOSUPPORT), "this kernel has no AF_XDP")
		if err == nil {
			unix.Close(fd)
		}
		for _, name := range []string{"left", "right"} {
			dev, err := net.InterfaceByName(name)
			if err != nil {
				t.Fatal(err)
			}
			opts[name] = Options{Device: name, Ifindex: uint32(dev.Index), Rx: 64, Tx: 64}
		}
	})
	return n, opts["left"], opts["right"]
}

func newUMEM(t *testing.T, frames uint32) *UMEM {
	t.Helper()
	u, err := NewUMEM(Memory{Frames: frames, FrameSize: frame})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if u.mem != nil {
			if err := u.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return u
}

func addrs(first, n int) []uint64 {
	a := make([]uint64, n)
	for i := range a {
		a[i] = uint64(first+i) * frame
	}
	return a
}

// Two sockets on two devices share one UMEM: what goes out of one is received
// by the kernel at the other end, and completes where it was sent.
func TestSharedUMEM(t *testing.T) {
	n, left, right := pair(t)
	u := newUMEM(t, 128)
	n.Do(t, func() {
		a, err := u.Open(left, addrs(0, 32))
		if err != nil {
			t.Fatal(err)
		}
		b, err := u.Open(right, addrs(32, 32))
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Close(); err == nil {
			t.Error("the UMEM was closed under open sockets")
		}
		// The first may go, the UMEM lives on in the second and can be lent again.
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if a, err = u.Open(left, addrs(0, 32)); err != nil {
			t.Fatal("open again, borrowing from the second socket:", err)
		}
		for _, s := range []*Socket{a, b} {
			sendAndComplete(t, s)
		}
		for _, s := range []*Socket{a, b} {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := s.Close(); !errors.Is(err, ErrClosed) {
				t.Error("second Close:", err)
			}
			useClosed(t, s)
		}
	})
}

// useClosed: a closed socket does nothing, and says so.
func useClosed(t *testing.T, s *Socket) {
	t.Helper()
	descs, frames := make([]unix.XDPDesc, 4), make([]uint64, 4)
	s.WakeRx()
	if n := s.Fill(frames) + s.Receive(descs) + s.Transmit(descs) + s.Complete(frames) + s.Unsent(); n != 0 || s.FD() != -1 {
		t.Errorf("a closed socket moved %d things; its descriptor is %d", n, s.FD())
	}
	if err := s.Kick(); err != unix.EBADF {
		t.Error("kick of a closed socket:", err)
	}
	if _, err := s.Statistics(); !errors.Is(err, unix.EBADF) {
		t.Error("statistics of a closed socket:", err)
	}
}

// sendAndComplete sends 40 packets (more than one call's 32) from frames 64….
func sendAndComplete(t *testing.T, s *Socket) {
	t.Helper()
	descs := make([]unix.XDPDesc, 40)
	for i, addr := range addrs(64, len(descs)) {
		descs[i] = unix.XDPDesc{Addr: addr + 100, Len: 60}
		copy(s.Bytes()[addr+100:], bytes.Repeat([]byte{0xff}, 60)) // broadcast, unknown ethertype
	}
	if n, err := unix.GetsockoptInt(s.FD(), unix.SOL_SOCKET, unix.SO_SNDBUF); err != nil || n < 2*64*frame {
		t.Errorf("a send buffer of %d bytes is less than a ring of 64 frames: %v", n, err)
	}
	if n := s.Transmit(descs); n != len(descs) || s.Unsent() != n {
		t.Fatalf("queued %d of %d, %d unsent", n, len(descs), s.Unsent())
	}
	var got []uint64
	buf := make([]uint64, 16)
	for deadline := time.Now().Add(time.Minute); len(got) < len(descs) && time.Now().Before(deadline); {
		if err := s.Kick(); err != nil && err != unix.EAGAIN {
			t.Fatal("kick:", err)
		}
		got = append(got, buf[:s.Complete(buf)]...)
	}
	want := addrs(64, len(descs))
	for i := range want {
		want[i] += 100
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || s.Unsent() != 0 {
		t.Errorf("completed %d, want %d; %d unsent", got, want, s.Unsent())
	}
	if st, err := s.Statistics(); err != nil || st.Tx_invalid_descs != 0 {
		t.Errorf("statistics %+v, %v", st, err)
	}
}

// maps and fds of this process.
func held(t *testing.T) (maps, fds int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if strings.Contains(line, "socket:") { // the rings
			maps++
		}
	}
	return maps, len(dir)
}

// mapped: mprotect answers ENOMEM where nothing is mapped.
func mapped(mem []byte) bool { return unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE) == nil }

func TestCloseReleasesAll(t *testing.T) {
	n, left, right := pair(t)
	busy := left // bound twice: the failing Open must leave nothing either
	n.Do(t, func() {
		maps0, fds0 := held(t)
		for i := range 100 {
			u, err := NewUMEM(Memory{Frames: 64, FrameSize: frame})
			if err != nil {
				t.Fatal(err)
			}
			a, err := u.Open(left, addrs(0, 32))
			if err != nil {
				t.Fatal(i, err)
			}
			b, err := u.Open(right, addrs(32, 32))
			if err != nil {
				t.Fatal(i, err)
			}
			if maps, _ := held(t); maps != maps0+8 {
				t.Fatalf("cycle %d: %d ring mappings with two sockets, want 8: is the count of any use?", i, maps-maps0)
			}
			busy.Rx = 63
			if _, err := u.Open(busy, nil); err == nil {
				t.Fatal("a ring of 63 slots was accepted")
			}
			mem := u.mem
			for _, close := range []func() error{a.Close, b.Close, u.Close} {
				if err := close(); err != nil {
					t.Fatal(i, err)
				}
			}
			if mapped(mem) {
				t.Fatalf("cycle %d: the UMEM is still mapped", i)
			}
		}
		if maps, fds := held(t); maps != maps0 || fds != fds0 {
			t.Errorf("after 100 cycles %d ring mappings and %d descriptors, before %d and %d", maps, fds, maps0, fds0)
		}
	})
}
