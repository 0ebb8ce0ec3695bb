// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"fastpath/src/testkit"

	"golang.org/x/sys/unix"
)

// stream is what slows a TCP connection down that ends on the router: one of a
// group, whose first one is the reference of the others' ratios.
type stream struct {
	group, name string
	bed         variant // the one whose router it ends on
	setup, undo string  // shell scripts; $DEV is the port where the stream comes in
	limit       float64 // the ratio should not be below; 0: no target
}

const (
	groupFib   = "fib rule"
	groupLocal = "engine on the port"
)

// Without GRO, or the rule would see one packet in forty. (It can't be off: veth
// has no NAPI then.)
const (
	noGRO = "ip link set dev $DEV gro_max_size 2000\n"
	gro   = "ip link set dev $DEV gro_max_size 65536\n"
)

// fib is the rule of seeds/004 (source validation) in a chain.
func fib(hook, priority string) string {
	return noGRO + fmt.Sprintf(`
		nft -f - <<'END'
		table inet validation {
			chain check {
				type filter hook %s priority %s;
				fib saddr . iif oif missing drop
			}
		}
END
`, hook, priority)
}

const noFib = gro + "nft delete table inet validation"

var streams = []stream{
	{groupFib, "none", kernelPlain, noGRO, gro, 0},
	{groupFib, "in prerouting", kernelPlain, fib("prerouting", "raw"), noFib, 0},
	{groupFib, "in input", kernelPlain, fib("input", "filter"), noFib, 0},
	{groupLocal, "none", kernelPlain, "", "", 0},
	{groupLocal, byXDP, xdpNAT, "", "", 0.95},
	{groupLocal, byAFXDP, afxdpNAT, "", "", 0.95},
}

// StreamSample is one measurement of a stream.
type StreamSample struct {
	Rate float64 `json:"bits_per_second"`
	CPU  float64 `json:"cpu_ns_per_kb"` // of the ports' NAPI threads, for 1000 bytes
}

// receive measures how the bed's router receives for d.
func (st stream) receive(b *bed, d time.Duration) (x StreamSample, err error) {
	if st.setup != "" {
		dev := "DEV=" + b.r0 + "\n"
		if _, err := b.router.Sh(dev + st.setup); err != nil {
			return x, err
		}
		defer func() {
			_, e := b.router.Sh(dev + st.undo)
			err = errors.Join(err, e)
		}()
	}
	before, err := b.napi.cpu()
	if err != nil {
		return x, err
	}
	size, took, err := transfer(b.src, b.router, d)
	if err != nil {
		return x, fmt.Errorf("TCP, %s %s: %w", st.group, st.name, err)
	}
	after, err := b.napi.cpu()
	return StreamSample{
		Rate: 8 * float64(size) / took.Seconds(),
		CPU:  1000 * float64((after - before).Nanoseconds()) / float64(size),
	}, err
}

// transfer sends for d over a new connection. The ends block in system calls, with
// a CPU each, like a plain program's.
func transfer(client, server *testkit.Netns, d time.Duration) (size int, took time.Duration, err error) {
	listening, received := make(chan error, 1), make(chan error, 1)
	go func() {
		received <- there(server, routerCPU, func() (err error) {
			size, took, err = receiveTCP(listening)
			return err
		}, listening)
	}()
	if err := <-listening; err != nil {
		return 0, 0, errors.Join(err, <-received)
	}
	sent := make(chan error, 1)
	go func() { sent <- there(client, worldCPU, func() error { return sendTCP(d) }, nil) }()
	err = errors.Join(<-sent, <-received)
	return size, took, err
}

// there runs f in a namespace, on a CPU. The goroutine's thread ends with it.
// What is in the way is also told to failed, if it is not nil.
func there(ns *testkit.Netns, cpu int, f func() error, failed chan<- error) error {
	if err := errors.Join(ns.Enter(), threads{0}.pin(cpu), threads{0}.renice(lift)); err != nil {
		if failed != nil {
			failed <- err
		}
		return err
	}
	return f()
}

// The router's end, and how long it waits for whatever comes next.
var (
	tcpEnd  = unix.SockaddrInet4{Addr: [4]byte{10, 0, 1, 1}, Port: 5201}
	tcpWait = unix.Timeval{Sec: 30}
)

const chunk = 128 << 10

// receiveTCP says when it listens, and measures from the first byte to the last.
func receiveTCP(listening chan<- error) (size int, took time.Duration, err error) {
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(l)
		err = errors.Join(
			unix.SetsockoptInt(l, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.SetsockoptTimeval(l, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tcpWait),
			unix.Bind(l, &tcpEnd), unix.Listen(l, 1))
	}
	listening <- err
	if err != nil {
		return 0, 0, err
	}
	c, err := again(func() (int, error) { fd, _, err := unix.Accept(l); return fd, err })
	if err != nil {
		return 0, 0, fmt.Errorf("accept: %w", err)
	}
	defer unix.Close(c)
	if err := unix.SetsockoptTimeval(c, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tcpWait); err != nil {
		return 0, 0, err
	}
	buf := make([]byte, chunk)
	read := func() (int, error) { return unix.Read(c, buf) }
	n, err := again(read)
	begin := time.Now()
	for n > 0 && err == nil {
		n, err = again(read)
		size += max(n, 0)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("receive: %w", err)
	}
	if size == 0 {
		return 0, 0, errors.New("receive: nothing came")
	}
	return size, time.Since(begin), nil
}

func sendTCP(d time.Duration) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tcpWait); err != nil {
		return err
	}
	if err := unix.Connect(s, &tcpEnd); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	buf := make([]byte, chunk)
	for begin := time.Now(); time.Since(begin) < d; {
		if _, err := again(func() (int, error) { return unix.Write(s, buf) }); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	return nil
}

// again calls f until no signal comes in between. (With a timeout the kernel
// doesn't.)
func again(f func() (int, error)) (n int, err error) {
	for {
		if n, err = f(); err != unix.EINTR {
			return n, err
		}
	}
}
