// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"fastpath/src/testkit"
)

// CPUs: everything of the router on one, generator and sink on the other.
const (
	worldCPU  = 0
	routerCPU = 1
)

const (
	mtu  = 1600 // of all devices: a tunnel's header fits on top of the longest frame
	lift = -10  // to nice values, so that the rest of the machine disturbs less
)

// bed is a variant's test bed. Its own devices, because NAPI threads are found
// by the device's name:
//
//	s0 ───── r0  router  r1 ───── d0
//	generator                     sink
type bed struct {
	variant
	flows            int // numbers below it are known to the router
	learnt           int // numbers below it are known to conntrack, if it looks
	src, router, dst *testkit.Netns
	s0, r0, r1, d0   string
	mac              map[string][6]byte
	index            map[string]int
	generators       map[scene]*generator // by size and flows
	sink             *sink
	pid              int            // of the forwarding process, if there is one
	napi             threads        // of the router's ports
	cleanup          []func() error // in reverse order
}

// newBed makes a bed. It has cleaned up after itself if it can't.
func newBed(v variant, number, flows int, tools tools) (b *bed, err error) {
	id := strconv.FormatInt(int64(os.Getpid()), 36) + string(rune('a'+number))
	b = &bed{variant: v, flows: flows, s0: "s" + id, r0: "r" + id, r1: "q" + id, d0: "d" + id,
		mac: map[string][6]byte{}, index: map[string]int{}, generators: map[scene]*generator{}}
	for _, step := range []func() error{b.connect, b.forwarding, b.newSink, func() error { return b.start(tools) }, b.place} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("%s: %w", v, errors.Join(err, b.close()))
		}
	}
	return b, nil
}

func (b *bed) connect() (err error) {
	for _, n := range []struct {
		ns   **testkit.Netns
		name string
	}{{&b.src, "source"}, {&b.router, "router"}, {&b.dst, "sink"}} {
		if *n.ns, err = testkit.MakeNetns(n.name); err != nil {
			return err
		}
		b.cleanup = append(b.cleanup, (*n.ns).Delete)
	}
	if err := testkit.Connect(b.src, b.s0, b.router, b.r0); err != nil {
		return err
	}
	if err := testkit.Connect(b.router, b.r1, b.dst, b.d0); err != nil {
		return err
	}
	for dev, ns := range map[string]*testkit.Netns{b.s0: b.src, b.r0: b.router, b.r1: b.router, b.d0: b.dst} {
		// A NAPI thread has a clock of its own; veth has NAPI with GRO or XDP only.
		if _, err := ns.Sh(fmt.Sprintf("ip link set %[1]s mtu %[2]d; ethtool -K %[1]s gro on; echo 1 > /sys/class/net/%[1]s/threaded", dev, mtu)); err != nil {
			return err
		}
		if err := ns.Inside(func() error { return b.look(dev) }); err != nil {
			return err
		}
	}
	return nil
}

func (b *bed) look(dev string) error {
	i, err := net.InterfaceByName(dev)
	if err != nil {
		return err
	}
	b.mac[dev], b.index[dev] = [6]byte(i.HardwareAddr), i.Index
	return nil
}

// forwarding sets the router's kernel up. Checksums of received packets are not
// verified by conntrack, as if the NIC had done so, and it forgets no flow
// before the end.
func (b *bed) forwarding() error {
	s0, d0 := b.mac[b.s0], b.mac[b.d0]
	if _, err := b.src.Sh(fmt.Sprintf("ip addr add 10.0.1.2/24 dev %s", b.s0)); err != nil {
		return err
	}
	script := fmt.Sprintf(`
		sysctl -qw net.ipv4.ip_forward=1
		ip addr add 10.0.1.1/24 dev %[1]s
		ip addr add 192.0.2.1/24 dev %[2]s
		ip route add 198.51.100.0/24 via 192.0.2.2
		ip neigh add 10.0.1.2 dev %[1]s nud permanent lladdr %[3]s
		ip neigh add 192.0.2.2 dev %[2]s nud permanent lladdr %[4]s`,
		b.r0, b.r1, net.HardwareAddr(s0[:]), net.HardwareAddr(d0[:]))
	if b.by == byKernel && b.nat {
		script += fmt.Sprintf(`
		nft add table ip nat
		nft 'add chain ip nat postrouting { type nat hook postrouting priority 100 ; }'
		nft add rule ip nat postrouting oifname %s masquerade
		sysctl -qw net.netfilter.nf_conntrack_checksum=0
		sysctl -qw net.netfilter.nf_conntrack_udp_timeout=86400`, b.r1)
	} else {
		b.learnt = b.flows
	}
	_, err := b.router.Sh(script)
	return err
}

func (b *bed) newSink() (err error) {
	src, mask := [4]byte{10, 0, 1, 0}, [4]byte{255, 255, 255, 0}
	if b.nat {
		src, mask = [4]byte{192, 0, 2, 1}, [4]byte{255, 255, 255, 255}
	}
	if b.sink, err = newSink(src, mask, 26+pushed[b.encap]); err != nil {
		return err
	}
	b.cleanup = append(b.cleanup, func() error { return b.sink.close() })
	return b.dst.Inside(func() error { return b.sink.attach(b.index[b.d0]) })
}

// pushed is how many bytes an encapsulation adds.
var pushed = map[string]int{plain: 0, vlanPPPoE: 4 + 8, dslite: 40}

// place finds the threads, and puts the router's and the world's where they belong.
func (b *bed) place() (err error) {
	for _, dev := range []string{b.r0, b.r1} {
		ts, err := napiThreads(dev)
		if err != nil {
			return err
		}
		b.napi = append(b.napi, ts...)
	}
	router, err := b.routerThreads()
	if err != nil {
		return err
	}
	if err := errors.Join(router.pin(routerCPU), router.renice(lift)); err != nil {
		return err
	}
	for _, dev := range []string{b.s0, b.d0} {
		world, err := napiThreads(dev)
		if err != nil {
			return err
		}
		if err := errors.Join(world.pin(worldCPU), world.renice(2*lift)); err != nil { // the sink before the generator
			return err
		}
	}
	return nil
}

// routerThreads are all threads whose cost is measured. The forwarding process
// may get more of them, which inherit CPU and nice value of the others.
func (b *bed) routerThreads() (threads, error) {
	if b.pid == 0 {
		return b.napi, nil
	}
	ts, err := processThreads(b.pid)
	return append(ts, b.napi...), err
}

// generator is the scene's; they are made when they are needed.
func (b *bed) generator(s scene) (*generator, error) {
	if s.flows > b.flows {
		return nil, fmt.Errorf("%s: %d flows wanted, the router has %d", b, s.flows, b.flows)
	}
	key := scene{size: s.size, flows: s.flows}
	if g := b.generators[key]; g != nil {
		return g, nil
	}
	g, err := newGenerator(b.src, b.index[b.s0], b.mac[b.s0], b.mac[b.r0], s.size, s.flows)
	if err != nil {
		return nil, err
	}
	b.cleanup = append(b.cleanup, g.close)
	b.generators[key] = g
	return g, nil
}

// Sample is one measurement.
type Sample struct {
	Round int     `json:"round"`
	CPU   float64 `json:"cpu_ns"`
	PPS   float64 `json:"pps"`
}

// errNothing: the router forwarded nothing, or not what it should.
var errNothing = errors.New("nothing arrived")

// patience is how often a measurement may be tried: on a busy machine the router
// may get no CPU for as long as one takes.
const patience = 5

// try measures until something arrives.
func (b *bed) try(ctx context.Context, s scene, d time.Duration) (x Sample, err error) {
	for range patience {
		if x, err = b.measure(ctx, s, d); !errors.Is(err, errNothing) {
			break
		}
	}
	return x, err
}

// measure sends for d and tells what the router's CPU cost was.
func (b *bed) measure(ctx context.Context, s scene, d time.Duration) (Sample, error) {
	g, err := b.generator(s)
	if err != nil {
		return Sample{}, err
	}
	if s.flows > b.learnt { // slowly: nothing is lost
		if _, err := g.send(s.flows, 50_000); err != nil {
			return Sample{}, err
		}
		b.learnt = s.flows
	}
	if _, err := g.run(d/4, s.pps); err != nil { // caches warm
		return Sample{}, err
	}
	cpu, seen, err := b.state(ctx)
	if err != nil {
		return Sample{}, err
	}
	took, err := g.run(d, s.pps)
	if err != nil {
		return Sample{}, err
	}
	cpu2, seen2, err := b.state(ctx)
	if err != nil {
		return Sample{}, err
	}
	if seen2 == seen {
		return Sample{}, fmt.Errorf("%s: %w", b, errNothing)
	}
	n := float64(seen2 - seen)
	return Sample{CPU: float64((cpu2 - cpu).Nanoseconds()) / n, PPS: n / took.Seconds()}, nil
}

// settle is for what is still under way.
const settle = 25 * time.Millisecond

// state is the CPU time of the router and what the sink saw, both so far.
func (b *bed) state(ctx context.Context) (cpu time.Duration, seen uint64, err error) {
	select {
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	case <-time.After(settle):
	}
	router, err := b.routerThreads()
	if err != nil {
		return 0, 0, err
	}
	if cpu, err = router.cpu(); err != nil {
		return 0, 0, err
	}
	seen, err = b.sink.seen()
	return cpu, seen, err
}

func (b *bed) close() error {
	var errs []error
	for i := len(b.cleanup) - 1; i >= 0; i-- {
		errs = append(errs, b.cleanup[i]())
	}
	b.cleanup = nil
	return errors.Join(errs...)
}
