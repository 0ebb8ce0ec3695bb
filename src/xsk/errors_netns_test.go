// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"fastpath/src/testkit"

	"golang.org/x/sys/unix"
)

// onThread runs f on a thread that is thrown away afterwards: f may drop its
// capabilities or filter its system calls.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good
		f()
	}()
	<-done
}

// dropCapabilities takes all capabilities but those in keep from the thread.
func dropCapabilities(keep ...uint) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for _, c := range keep {
		data[c/32].Effective |= 1 << (c % 32)
		data[c/32].Permitted |= 1 << (c % 32)
	}
	return unix.Capset(&header, &data[0])
}

// memoryLimit sets RLIMIT_MEMLOCK of the process and returns the way back.
func memoryLimit(bytes uint64) (back func() error, err error) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		return nil, err
	}
	back = func() error { return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old) }
	return back, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: bytes, Max: old.Max})
}

func TestTypedErrors(t *testing.T) {
	n, left, _ := pair(t)
	for _, c := range []struct {
		name  string
		spoil func() error
		want  error
		errno unix.Errno
	}{
		{"no AF_XDP", func() error { return testkit.DenySocket(unix.AF_XDP, unix.EAFNOSUPPORT) }, ErrNotSupported, unix.EAFNOSUPPORT},
		{"no capabilities", func() error { return dropCapabilities() }, ErrPermission, unix.EPERM},
		{"memory limit", func() error { return dropCapabilities(unix.CAP_NET_RAW, unix.CAP_NET_ADMIN) }, ErrMemoryLock, unix.ENOBUFS},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUMEM(t, 64)
			back, err := memoryLimit(16 * frame)
			if err != nil {
				t.Fatal(err)
			}
			defer back()
			onThread(func() {
				if err = n.Enter(); err != nil {
					return
				}
				if err = c.spoil(); err == nil {
					_, err = u.Open(left, addrs(0, 32))
				}
			})
			checkError(t, err, c.want, c.errno)
		})
	}
}

func checkError(t *testing.T, err, want error, errno unix.Errno) {
	t.Helper()
	if !errors.Is(err, want) || !errors.Is(err, errno) || !strings.Contains(fmt.Sprint(err), "left queue 0") {
		t.Errorf("error %q, want %q with %v, naming the queue", err, want, errno)
	}
	if strings.Contains(fmt.Sprint(err), "\n") {
		t.Errorf("the error has more than one line: %q", err)
	}
}

func TestQueueBusy(t *testing.T) {
	n, left, _ := pair(t)
	first, second := newUMEM(t, 64), newUMEM(t, 64)
	n.Do(t, func() {
		s, err := first.Open(left, addrs(0, 32))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err = second.Open(left, addrs(0, 32))
		checkError(t, err, ErrQueueBusy, unix.EBUSY)
		if waited := time.Since(begin); waited < bindPatience {
			t.Errorf("gave up after %v, want %v of retries", waited, bindPatience)
		}
		// A queue that gets free while Open waits is taken.
		time.AfterFunc(200*time.Millisecond, func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		s2, err := second.Open(left, addrs(0, 32))
		if err != nil {
			t.Fatal("open while the other one closes:", err)
		}
		if err := s2.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestWrongUse(t *testing.T) {
	for _, m := range []Memory{
		{Frames: 0, FrameSize: 2048}, {Frames: 16, FrameSize: 1500}, {Frames: 16, FrameSize: 1024}, {Frames: 16, FrameSize: 1 << 20},
		{Frames: 1 << 31, FrameSize: 4096}, {Frames: 16, FrameSize: 2048, Headroom: 1792},
	} {
		if u, err := NewUMEM(m); err == nil {
			t.Errorf("%+v was accepted", m)
			u.Close()
		}
	}
	n, left, _ := pair(t)
	u := newUMEM(t, 128)
	n.Do(t, func() {
		if _, err := u.Open(left, addrs(0, 65)); err == nil || !strings.Contains(err.Error(), "fill ring of 64") {
			t.Error("65 frames in a fill ring of 64:", err)
		}
		nobody := left
		nobody.Ifindex = 1 << 20
		if _, err := u.Open(nobody, nil); !errors.Is(err, unix.ENODEV) {
			t.Error("device that isn't there:", err)
		}
		queue := left
		queue.Queue = 99
		if _, err := u.Open(queue, nil); !errors.Is(err, unix.EINVAL) {
			t.Error("queue that isn't there:", err)
		}
	})
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Open(left, nil); !errors.Is(err, ErrClosed) {
		t.Error("socket on a closed UMEM:", err)
	}
}
