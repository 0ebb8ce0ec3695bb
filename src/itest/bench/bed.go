// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"fastpath/src/itest/engine"
	"fastpath/src/packet"
	"fastpath/src/testkit"

	"github.com/cilium/ebpf/link"
)

// CPUs: everything of the router on one, generator and sink on the other.
const (
	worldCPU  = 0
	routerCPU = 1
)

const (
	flows     = 1000
	size      = 64
	firstPort = 1024
	natPort   = 20000
	lift      = -10 // to nice values, so that the rest of the machine disturbs less
	workerGap = 1   // a worker comes after NAPI, but not so far that a flood starves it
)

// variant is one way of forwarding.
type variant struct {
	name   string
	encap  string // none | vlan+pppoe
	engine string // "": the kernel forwards
	nat    bool
}

var variants = []variant{
	{"kernel", "none", "", false},
	{"kernel+nat", "none", "", true},
	{"afxdp+nat", "none", "afxdp", true},
	{"xdp+nat", "none", "xdp", true},
	{"xdp+nat", "vlan+pppoe", "xdp", true},
}

// bed is a variant's test bed. Its own devices, because NAPI threads are found
// by the device's name:
//
//	s0 ───── r0  router  r1 ───── d0
//	generator                     sink
type bed struct {
	variant
	src, router, dst *testkit.Netns
	s0, r0, r1, d0   string
	mac              map[string][6]byte
	index            map[string]int
	generator        *generator
	sink             *sink
	sinkLink         link.Link
	process          *engine.Process
	napi             threads // of the router's ports
}

func newBed(v variant, number int) (b *bed, err error) {
	id := strconv.FormatInt(int64(os.Getpid()), 36) + string(rune('a'+number))
	b = &bed{variant: v, s0: "s" + id, r0: "r" + id, r1: "q" + id, d0: "d" + id,
		mac: map[string][6]byte{}, index: map[string]int{}}
	for _, step := range []func() error{b.connect, b.forwarding, b.ends, b.start, b.place} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, errors.Join(err, b.close()))
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
	}
	if err := testkit.Connect(b.src, b.s0, b.router, b.r0); err != nil {
		return err
	}
	if err := testkit.Connect(b.router, b.r1, b.dst, b.d0); err != nil {
		return err
	}
	for dev, ns := range map[string]*testkit.Netns{b.s0: b.src, b.r0: b.router, b.r1: b.router, b.d0: b.dst} {
		// A NAPI thread has a clock of its own; veth has NAPI with GRO or XDP only.
		if _, err := ns.Sh(fmt.Sprintf("ethtool -K %[1]s gro on; echo 1 > /sys/class/net/%[1]s/threaded", dev)); err != nil {
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
// verified by conntrack, as if the NIC had done so.
func (b *bed) forwarding() error {
	s0, d0 := b.mac[b.s0], b.mac[b.d0]
	_, err := b.router.Sh(fmt.Sprintf(`
		sysctl -qw net.ipv4.ip_forward=1
		ip addr add 10.0.1.1/24 dev %[1]s
		ip addr add 192.0.2.1/24 dev %[2]s
		ip route add 198.51.100.0/24 via 192.0.2.2
		ip neigh add 10.0.1.2 dev %[1]s nud permanent lladdr %[3]s
		ip neigh add 192.0.2.2 dev %[2]s nud permanent lladdr %[4]s`,
		b.r0, b.r1, net.HardwareAddr(s0[:]), net.HardwareAddr(d0[:])))
	if err != nil || !b.nat || b.engine != "" {
		return err
	}
	_, err = b.router.Sh(fmt.Sprintf(`
		nft add table ip nat
		nft 'add chain ip nat postrouting { type nat hook postrouting priority 100 ; }'
		nft add rule ip nat postrouting oifname %s masquerade
		sysctl -qw net.netfilter.nf_conntrack_checksum=0`, b.r1))
	return err
}

// ends makes generator and sink.
func (b *bed) ends() (err error) {
	frame := engine.Frame{Dst: b.mac[b.r0], Src: b.mac[b.s0], Proto: packet.UDP, TTL: 64,
		From: netip.MustParseAddrPort("10.0.1.2:0"), To: netip.MustParseAddrPort("198.51.100.7:5000"), Payload: make([]byte, size-42)}
	if b.generator, err = newGenerator(b.src, b.index[b.s0], frame, flows); err != nil {
		return err
	}
	src, at := [4]byte{10, 0, 1, 2}, 26
	if b.nat {
		src = [4]byte{192, 0, 2, 1}
	}
	if b.encap != "none" {
		at += 4 + 8
	}
	if b.sink, err = newSink(src, at); err != nil {
		return err
	}
	return b.dst.Inside(func() error {
		b.sinkLink, err = link.AttachXDP(link.XDPOptions{Program: b.sink.prog, Interface: b.index[b.d0], Flags: link.XDPDriverMode})
		return err
	})
}

// start starts the engine, if the variant has one.
func (b *bed) start() error {
	if b.engine == "" {
		return nil
	}
	in := packet.Wire{Port: 0, Peer: b.mac[b.s0], Own: b.mac[b.r0]}
	out := packet.Wire{Port: 1, Peer: b.mac[b.d0], Own: b.mac[b.r1]}
	if b.encap != "none" {
		out.VLANs, out.Session = []packet.VLAN{{Type: packet.TypeVLAN, ID: 35}}, 0x1234
	}
	spec := engine.Spec{AFXDP: b.engine == "afxdp", Devices: []string{b.r0, b.r1}, Nice: workerGap, Ring: 2048}
	far := netip.MustParseAddrPort("198.51.100.7:5000")
	for i := range uint16(flows) {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, 2}), firstPort+i)
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), natPort+i)
		spec.Flows = append(spec.Flows, engine.Flow{In: in, Out: out, MTU: 1492,
			From: packet.Tuple{Proto: packet.UDP, Src: from, Dst: far}, To: packet.Tuple{Proto: packet.UDP, Src: to, Dst: far}})
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := b.router.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	b.process, err = engine.Launch(cmd, spec)
	return err
}

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
	world, err := napiThreads(b.d0)
	if err != nil {
		return err
	}
	return errors.Join(world.pin(worldCPU), world.renice(2*lift)) // the sink before the generator
}

// routerThreads are all threads whose cost is measured. The forwarding process
// may get more of them, which inherit CPU and nice value of the others.
func (b *bed) routerThreads() (threads, error) {
	if b.process == nil {
		return b.napi, nil
	}
	ts, err := processThreads(b.process.PID())
	return append(ts, b.napi...), err
}

// measure sends for d and tells what the router's CPU cost was.
func (b *bed) measure(d time.Duration, l load) (sample, error) {
	if _, err := b.generator.run(d/4, l.pps, worldCPU); err != nil { // flows are learnt, caches warm
		return sample{}, err
	}
	time.Sleep(settle)
	cpu, seen, err := b.state()
	if err != nil {
		return sample{}, err
	}
	begin := time.Now()
	if _, err := b.generator.run(d, l.pps, worldCPU); err != nil {
		return sample{}, err
	}
	elapsed := time.Since(begin)
	time.Sleep(settle)
	cpu2, seen2, err := b.state()
	if err != nil {
		return sample{}, err
	}
	if seen2 == seen {
		return sample{}, fmt.Errorf("%s: nothing arrived", b.name)
	}
	n := float64(seen2 - seen)
	return sample{cpu: float64((cpu2 - cpu).Nanoseconds()) / n, pps: n / elapsed.Seconds()}, nil
}

// settle is for what is still under way.
const settle = 30 * time.Millisecond

func (b *bed) state() (cpu time.Duration, seen uint64, err error) {
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
	if b.process != nil {
		_, err := b.process.Finish()
		errs = append(errs, err)
	}
	if b.sinkLink != nil {
		errs = append(errs, b.sinkLink.Close())
	}
	if b.sink != nil {
		errs = append(errs, b.sink.prog.Close(), b.sink.count.Close())
	}
	if b.generator != nil {
		errs = append(errs, b.generator.prog.Close(), b.generator.pace.Close())
	}
	for _, n := range []*testkit.Netns{b.src, b.router, b.dst} {
		if n != nil {
			errs = append(errs, n.Delete())
		}
	}
	return errors.Join(errs...)
}
