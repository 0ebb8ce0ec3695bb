// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"fastpath/src/itest/engine"
	"fastpath/src/packet"
	"fastpath/src/testkit"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// XDP return codes (include/uapi/linux/bpf.h).
const (
	xdpDrop = 1
	xdpPass = 2
	xdpTx   = 3
)

// A flow is told by its number: the low bits are in the source port, the others
// in the source's and the destination's address, where one goes up as the other
// goes down, so that no checksum but the port's changes.
const (
	portBits  = 14
	firstPort = 1024
	natPort   = 20000
)

func flowSource(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, 2 + byte(i>>portBits)}), firstPort+uint16(i&(1<<portBits-1)))
}

func flowTarget(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, 10 - byte(i>>portBits)}), 5000)
}

// payload of a flow's frames begins with the source port's complement: so the UDP
// checksum is the same for all flows.
func payload(i, size int) []byte {
	p := make([]byte, size-42)
	for j := range p {
		p[j] = byte(j)
	}
	binary.BigEndian.PutUint16(p, ^flowSource(i).Port())
	return p
}

// generator sends frames out of a device from inside the kernel: live frames of
// BPF_PROG_TEST_RUN, as cheap as sending gets.
type generator struct {
	ns      *testkit.Netns
	ifindex uint32
	frame   []byte
	prog    *ebpf.Program
	state   *ebpf.Map // one generatorState
	rate    float64   // frames/s when it sent as fast as it can
}

// generatorState is what the program remembers from frame to frame.
type generatorState struct {
	Interval uint64 // ns between frames; 0: as fast as it can
	Due      uint64 // when the next one may leave
	Flow     uint64 // the next one's
	Begin    uint64 // when the first one left
}

const batch = 16 // frames that the kernel sends at a time

// newGenerator sends frames of size bytes from src to dst, of all flows in turn.
func newGenerator(ns *testkit.Netns, ifindex int, src, dst [6]byte, size, flows int) (*generator, error) {
	frame := engine.Frame{Dst: dst, Src: src, Proto: packet.UDP, TTL: 64, From: flowSource(0), To: flowTarget(0), Payload: payload(0, size)}
	g := &generator{ns: ns, ifindex: uint32(ifindex), frame: frame.Bytes(), rate: 1_000_000}
	var err error
	g.state, err = ebpf.NewMap(&ebpf.MapSpec{Name: "state", Type: ebpf.Array, KeySize: 4, ValueSize: 32, MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	ins := append(waitForTurn(g.state), nextFlow(flows)...)
	ins = append(ins, writeFrame(g.frame)...)
	ins = append(ins, asm.Mov.Imm(asm.R0, xdpTx), asm.Return(), asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol("drop"), asm.Return())
	g.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "generator", Type: ebpf.XDP, License: "GPL", Instructions: ins})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("generator: %w", err), g.state.Close())
	}
	return g, nil
}

func (g *generator) close() error { return errors.Join(g.prog.Close(), g.state.Close()) }

// waitForTurn spins until the next frame is due, for 1000 looks at the clock at
// most. Whoever is more than 1 ms late doesn't catch up. It leaves the context in
// R6, the state in R7.
func waitForTurn(state *ebpf.Map) asm.Instructions {
	const late = 1_000_000
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, state.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "drop"),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadMem(asm.R8, asm.R7, 24, asm.DWord), // Begin
		asm.JNE.Imm(asm.R8, 0, "begun"),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R7, 24, asm.R0, asm.DWord),
		asm.LoadMem(asm.R8, asm.R7, 0, asm.DWord).WithSymbol("begun"), // Interval
		asm.JEq.Imm(asm.R8, 0, "send"),
		asm.LoadMem(asm.R9, asm.R7, 8, asm.DWord), // Due
		asm.Mov.Imm(asm.R8, 1000),
		asm.FnKtimeGetNs.Call().WithSymbol("look"),
		asm.JGE.Reg(asm.R0, asm.R9, "due"),
		asm.Add.Imm(asm.R8, -1),
		asm.JNE.Imm(asm.R8, 0, "look"),
		asm.Mov.Reg(asm.R1, asm.R0).WithSymbol("due"),
		asm.Sub.Reg(asm.R1, asm.R9),
		asm.JLE.Imm(asm.R1, late, "next"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.LoadMem(asm.R8, asm.R7, 0, asm.DWord).WithSymbol("next"),
		asm.Add.Reg(asm.R9, asm.R8),
		asm.StoreMem(asm.R7, 8, asm.R9, asm.DWord),
	}
}

// nextFlow leaves the flow's port in R8, the rest of its number in R9. It comes
// to all flows equally often, and not in their order, which a CPU would foresee.
func nextFlow(flows int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R8, asm.R7, 16, asm.DWord).WithSymbol("send"),
		asm.Mov.Reg(asm.R1, asm.R8),
		asm.Add.Imm(asm.R1, int32(stride(flows))),
		asm.JLT.Imm(asm.R1, int32(flows), "wrapped"),
		asm.Sub.Imm(asm.R1, int32(flows)),
		asm.StoreMem(asm.R7, 16, asm.R1, asm.DWord).WithSymbol("wrapped"),
		asm.Mov.Reg(asm.R9, asm.R8),
		asm.RSh.Imm(asm.R9, portBits),
		asm.And.Imm(asm.R8, 1<<portBits-1),
		asm.Add.Imm(asm.R8, firstPort),
	}
}

// stride is near the golden section of n, and has no divisor in common with it.
func stride(n int) int {
	s := n*618/1000 | 1
	for gcd(s, n) != 1 {
		s += 2
	}
	return s
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// writeFrame writes the frame. The kernel recycles pages as the router left them,
// so what anyone may have changed is written each time: the headers, that is; the
// payload behind them is the frame's that the kernel was given first.
func writeFrame(frame []byte) asm.Instructions {
	const srcLow, dstLow, sport, payload = 29, 33, 34, 42
	ins := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R6, 0, asm.Word), // data
		asm.LoadMem(asm.R3, asm.R6, 4, asm.Word), // data_end
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, int32(len(frame))),
		asm.JGT.Reg(asm.R4, asm.R3, "drop"),
	}
	for off := 0; off+8 <= min(len(frame), 64); off += 8 {
		ins = append(ins,
			asm.LoadImm(asm.R5, int64(binary.NativeEndian.Uint64(frame[off:])), asm.DWord),
			asm.StoreMem(asm.R2, int16(off), asm.R5, asm.DWord))
	}
	return append(ins,
		asm.HostTo(asm.BE, asm.R8, asm.Half),
		asm.StoreMem(asm.R2, sport, asm.R8, asm.Half),
		asm.Xor.Imm(asm.R8, 0xffff),
		asm.StoreMem(asm.R2, payload, asm.R8, asm.Half),
		asm.Mov.Imm(asm.R8, int32(frame[dstLow])),
		asm.Sub.Reg(asm.R8, asm.R9),
		asm.StoreMem(asm.R2, dstLow, asm.R8, asm.Byte),
		asm.Add.Imm(asm.R9, int32(frame[srcLow])),
		asm.StoreMem(asm.R2, srcLow, asm.R9, asm.Byte))
}

// run sends for about d, on the world's CPU; pps 0 is as fast as it can.
func (g *generator) run(d time.Duration, pps int) (took time.Duration, err error) {
	rate := float64(pps)
	if pps == 0 {
		rate = g.rate
	}
	n := int(d.Seconds() * rate)
	if took, err = g.send(n, pps); err == nil && pps == 0 {
		g.rate = float64(n) / took.Seconds()
	}
	return took, err
}

// send sends n frames and says how long it took from the first one on.
func (g *generator) send(n, pps int) (took time.Duration, err error) {
	done := make(chan error, 1)
	go func() { // ends with its thread, which is pinned and inside the namespace
		err := g.ns.Enter()
		if err == nil {
			err = errors.Join(threads{0}.pin(worldCPU), threads{0}.renice(lift))
		}
		if err == nil {
			took, err = g.sendHere(n, pps)
		}
		done <- err
	}()
	err = <-done
	return took, err
}

func (g *generator) sendHere(n, pps int) (time.Duration, error) {
	var st generatorState
	if pps > 0 {
		st.Interval = uint64(time.Second) / uint64(pps)
	}
	if err := g.state.Put(uint32(0), st); err != nil {
		return 0, fmt.Errorf("generator: %w", err)
	}
	md := struct{ Data, DataEnd, Meta, Ifindex, Queue, Egress uint32 }{DataEnd: uint32(len(g.frame)), Ifindex: g.ifindex}
	_, err := g.prog.Run(&ebpf.RunOptions{
		Data: g.frame, Context: md, Repeat: uint32(max(n, 1)), BatchSize: batch, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES})
	if err != nil {
		return 0, fmt.Errorf("generator: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, err
	}
	if err := g.state.Lookup(uint32(0), &st); err != nil {
		return 0, fmt.Errorf("generator: %w", err)
	}
	if st.Begin == 0 {
		return 0, errors.New("generator: nothing was sent")
	}
	return time.Duration(uint64(now.Nano()) - st.Begin), nil
}
