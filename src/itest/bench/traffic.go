// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"fastpath/src/itest/engine"
	"fastpath/src/testkit"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// XDP return codes and helpers used below (include/uapi/linux/bpf.h).
const (
	xdpDrop = 1
	xdpTx   = 3
)

// generator sends frames out of a device from inside the kernel: live frames of
// BPF_PROG_TEST_RUN, as cheap as sending gets.
type generator struct {
	ns      *testkit.Netns
	ifindex uint32
	frame   []byte
	prog    *ebpf.Program
	pace    *ebpf.Map // [0]: ns between frames, [1]: when the next one is due
}

const (
	batch   = 16        // frames that the kernel sends at a time
	perCall = 1_000_000 // frames of a system call when not paced; each call costs some 25 ms in which nothing is sent
)

// newGenerator sends f with flows different source ports, from firstPort on. The
// first two bytes of f's payload are the source port's complement: so the UDP
// checksum is right for all of them.
func newGenerator(ns *testkit.Netns, ifindex int, f engine.Frame, flows int) (*generator, error) {
	f.Payload[0], f.Payload[1] = 0xff, 0xff
	g := &generator{ns: ns, ifindex: uint32(ifindex), frame: f.Bytes()}
	var err error
	g.pace, err = ebpf.NewMap(&ebpf.MapSpec{Name: "pace", Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	ins := append(asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}, waitForTurn(g.pace)...)
	ins = append(ins, writeFrame(g.frame, flows)...)
	ins = append(ins, asm.Mov.Imm(asm.R0, xdpTx), asm.Return(), asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol("drop"), asm.Return())
	g.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "generator", Type: ebpf.XDP, License: "GPL", Instructions: ins})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("generator: %w", err), g.pace.Close())
	}
	return g, nil
}

// waitForTurn spins until the next frame is due, for 1000 looks at the clock at
// most. Whoever is more than 1 ms late doesn't catch up.
func waitForTurn(pace *ebpf.Map) asm.Instructions {
	const late = 1_000_000
	return asm.Instructions{
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, pace.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "drop"),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadMem(asm.R8, asm.R7, 0, asm.DWord), // interval
		asm.JEq.Imm(asm.R8, 0, "send"),
		asm.LoadMem(asm.R9, asm.R7, 8, asm.DWord), // due
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

// writeFrame writes the frame with a random one of the source ports. The kernel
// recycles pages as the router left them, so all of it is written each time.
func writeFrame(frame []byte, flows int) asm.Instructions {
	const sport, payload = 34, 42
	ins := asm.Instructions{
		asm.FnGetPrandomU32.Call().WithSymbol("send"),
		asm.Mod.Imm(asm.R0, int32(flows)),
		asm.Add.Imm(asm.R0, firstPort),
		asm.LoadMem(asm.R2, asm.R6, 0, asm.Word), // data
		asm.LoadMem(asm.R3, asm.R6, 4, asm.Word), // data_end
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, int32(len(frame))),
		asm.JGT.Reg(asm.R4, asm.R3, "drop"),
	}
	for off := 0; off+8 <= len(frame); off += 8 {
		ins = append(ins,
			asm.LoadImm(asm.R5, int64(binary.NativeEndian.Uint64(frame[off:])), asm.DWord),
			asm.StoreMem(asm.R2, int16(off), asm.R5, asm.DWord))
	}
	return append(ins,
		asm.HostTo(asm.BE, asm.R0, asm.Half),
		asm.StoreMem(asm.R2, sport, asm.R0, asm.Half),
		asm.Xor.Imm(asm.R0, 0xffff),
		asm.StoreMem(asm.R2, payload, asm.R0, asm.Half))
}

// run sends for about d, on one CPU; pps 0 is as fast as it can. It returns how
// many frames it sent; those that the router's ring didn't take are among them.
func (g *generator) run(d time.Duration, pps, cpu int) (sent int, err error) {
	done := make(chan error, 1)
	go func() { // ends with its thread, which is pinned and inside the namespace
		err := g.ns.Enter()
		if err == nil {
			err = errors.Join(threads{0}.pin(cpu), threads{0}.renice(lift))
		}
		if err == nil {
			sent, err = g.send(d, pps)
		}
		done <- err
	}()
	err = <-done
	return sent, err
}

func (g *generator) send(d time.Duration, pps int) (sent int, err error) {
	n, pace := perCall, [2]uint64{}
	if pps > 0 {
		n, pace[0] = int(d.Seconds()*float64(pps)), uint64(time.Second)/uint64(pps)
	}
	if err := g.pace.Put(uint32(0), pace); err != nil {
		return 0, fmt.Errorf("generator: %w", err)
	}
	md := struct{ Data, DataEnd, Meta, Ifindex, Queue, Egress uint32 }{DataEnd: uint32(len(g.frame)), Ifindex: g.ifindex}
	for begin := time.Now(); sent == 0 || pps == 0 && time.Since(begin) < d; sent += n {
		_, err := g.prog.Run(&ebpf.RunOptions{
			Data: g.frame, Context: md, Repeat: uint32(n), BatchSize: batch, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES})
		if err != nil {
			return sent, fmt.Errorf("generator: %w", err)
		}
	}
	return sent, nil
}

// sink counts, and drops, frames that are as they should be.
type sink struct {
	prog  *ebpf.Program
	count *ebpf.Map
}

// newSink counts frames that have source address src at offset at.
func newSink(src [4]byte, at int) (*sink, error) {
	count, err := ebpf.NewMap(&ebpf.MapSpec{Name: "sink", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "sink", Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, int32(at+4)),
		asm.JGT.Reg(asm.R4, asm.R3, "drop"),
		asm.LoadMem(asm.R5, asm.R2, int16(at), asm.Word),
		asm.LoadImm(asm.R6, int64(binary.NativeEndian.Uint32(src[:])), asm.DWord),
		asm.JNE.Reg(asm.R5, asm.R6, "drop"),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, count.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "drop"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol("drop"), asm.Return(),
	}})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sink: %w", err), count.Close())
	}
	return &sink{prog, count}, nil
}

// seen is the number of frames so far.
func (s *sink) seen() (total uint64, err error) {
	var perCPU []uint64
	if err := s.count.Lookup(uint32(0), &perCPU); err != nil {
		return 0, fmt.Errorf("sink: %w", err)
	}
	for _, n := range perCPU {
		total += n
	}
	return total, nil
}
