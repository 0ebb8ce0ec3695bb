// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// sink counts, and drops, frames that have the source address that they should.
// It needs little of the CPU that it shares with the generator.
type sink struct {
	prog  *ebpf.Program
	count *ebpf.Map
	link  link.Link
}

// newSink wants that address, of which the bytes in mask count, at an offset.
func newSink(src, mask [4]byte, at int) (*sink, error) {
	count, err := ebpf.NewMap(&ebpf.MapSpec{Name: "sink", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	native := binary.NativeEndian
	want, bits := native.Uint32(src[:])&native.Uint32(mask[:]), native.Uint32(mask[:])
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "sink", Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, int32(at+4)),
		asm.JGT.Reg(asm.R4, asm.R3, "drop"),
		asm.LoadMem(asm.R5, asm.R2, int16(at), asm.Word),
		asm.LoadImm(asm.R6, int64(bits), asm.DWord),
		asm.And.Reg(asm.R5, asm.R6),
		asm.LoadImm(asm.R6, int64(want), asm.DWord),
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
	return &sink{prog: prog, count: count}, nil
}

// attach is for a device of the current network namespace.
func (s *sink) attach(ifindex int) (err error) {
	s.link, err = link.AttachXDP(link.XDPOptions{Program: s.prog, Interface: ifindex, Flags: link.XDPDriverMode})
	return err
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

func (s *sink) close() error {
	var err error
	if s.link != nil {
		err = s.link.Close()
	}
	return errors.Join(err, s.prog.Close(), s.count.Close())
}
