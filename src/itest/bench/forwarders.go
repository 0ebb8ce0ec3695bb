// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"

	"fastpath/src/itest/engine"
	"fastpath/src/packet"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// start starts what forwards, if that isn't the kernel.
func (b *bed) start(t tools) error {
	switch b.by {
	case byXDP, byAFXDP:
		return b.startEngine()
	case byDevmap:
		return b.startDevmap(t.devmap)
	case byL2fwd:
		return b.startL2fwd(t.l2fwd)
	}
	return nil
}

// The two ends of the tunnel.
var (
	b4   = netip.MustParseAddr("2001:db8:ffff::2")
	aftr = netip.MustParseAddr("2001:db8:ffff::1")
)

const (
	vlanID  = 35
	session = 0x1234
)

func (b *bed) startEngine() error {
	in := packet.Wire{Port: 0, Peer: b.mac[b.s0], Own: b.mac[b.r0]}
	out := packet.Wire{Port: 1, Peer: b.mac[b.d0], Own: b.mac[b.r1]}
	switch b.encap {
	case vlanPPPoE:
		out.VLANs, out.Session = []packet.VLAN{{Type: packet.TypeVLAN, ID: vlanID}}, session
	case dslite:
		out.Local, out.Remote = b4, aftr
	}
	spec := engine.Spec{AFXDP: b.by == byAFXDP, Devices: []string{b.r0, b.r1}, Ring: 2048}
	for i := range b.flows {
		spec.Flows = append(spec.Flows, engine.Flow{In: in, Out: out, MTU: mtu - 40,
			From: packet.Tuple{Proto: packet.UDP, Src: flowSource(i), Dst: flowTarget(i)},
			To:   packet.Tuple{Proto: packet.UDP, Src: b.leaving(i), Dst: flowTarget(i)}})
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := b.router.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.SysProcAttr = apart()
	p, err := engine.Launch(cmd, spec)
	if err != nil {
		return err
	}
	b.pid = p.PID()
	b.cleanup = append(b.cleanup, func() error { _, err := p.Finish(); return err })
	return nil
}

// leaving is the source that a flow leaves with. The engines take other ports
// than the kernel would, as proof that it was them.
func (b *bed) leaving(i int) netip.AddrPort {
	if !b.nat {
		return flowSource(i)
	}
	port := flowSource(i).Port()
	if b.by != byKernel {
		port += natPort - firstPort
	}
	return netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port)
}

// apart keeps Ctrl-C on the terminal from ending a child: its bed does that.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// startDevmap attaches the object to r0; its one device is r1.
func (b *bed) startDevmap(object []byte) error {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return err
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return err
	}
	b.cleanup = append(b.cleanup, func() error { c.Close(); return nil })
	d0, r1 := b.mac[b.d0], b.mac[b.r1]
	if err := c.Maps["mac"].Put(uint32(0), append(d0[:], r1[:]...)); err != nil {
		return err
	}
	return b.router.Inside(func() error {
		if err := c.Maps["devices"].Put(uint32(0), uint32(b.index[b.r1])); err != nil {
			return err
		}
		l, err := link.AttachXDP(link.XDPOptions{Program: c.Programs["devmap"], Interface: b.index[b.r0], Flags: link.XDPDriverMode})
		if err == nil {
			b.cleanup = append(b.cleanup, l.Close)
		}
		return err
	})
}

// startL2fwd runs it in the real-time class, as the engine's workers are.
func (b *bed) startL2fwd(program string) error {
	mac := func(dev string) string { m := b.mac[dev]; return net.HardwareAddr(m[:]).String() }
	cmd := b.router.Command("chrt", "-f", "1", program, b.r0, mac(b.r0), mac(b.s0), b.r1, mac(b.r1), mac(b.d0))
	var stderr bytes.Buffer
	cmd.Stderr, cmd.SysProcAttr = &stderr, apart()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	b.pid = cmd.Process.Pid
	b.cleanup = append(b.cleanup, func() error { // it ends with its standard input
		err := errors.Join(stdin.Close(), cmd.Wait())
		if err != nil {
			return fmt.Errorf("l2fwd: %w: %s", err, stderr.String())
		}
		return nil
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		return errors.New("l2fwd doesn't forward")
	}
	return nil
}

// tools are the compiled comparators.
type tools struct {
	devmap []byte // an object file
	l2fwd  string // a program's path
}

// compile compiles the comparators into a directory, with what tests and demo
// need anyway. What can't be compiled is left out, and the error says why.
func compile(dir string) (t tools, err error) {
	object, program := dir+"/devmap.o", dir+"/l2fwd"
	triplet, err := exec.Command("gcc", "-print-multiarch").Output() // where Debian has asm/types.h
	if err == nil {
		headers := "/usr/include/" + string(bytes.TrimSpace(triplet))
		err = compiler(devmapC, "clang-14", "-target", "bpf", "-O2", "-g", "-Wall", "-Werror", "-mcpu=v2", "-idirafter", headers, "-c", "-o", object)
	}
	if err == nil {
		t.devmap, err = os.ReadFile(object)
	}
	if e := compiler(l2fwdC, "gcc", "-O2", "-Wall", "-Werror", "-o", program); e != nil {
		return t, errors.Join(err, e)
	}
	t.l2fwd = program
	return t, err
}

func compiler(source []byte, name string, args ...string) error {
	cmd := exec.Command(name, append(args, "-x", "c", "-")...)
	cmd.Stdin = bytes.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}
