// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// The program comes from fastpath.c; what is made of it is committed, and CI
// makes it again and compares.
//
//go:generate go run compile.go

// image is the compiled program.
type image struct {
	license     string
	maps        [numMaps]mapSpec
	relocations []relocation
	code        string // instructions of 8 bytes, in the CPU's byte order
}

// relocation says which instruction loads the address of a map, or of something
// in its value: it needs the map's file descriptor.
type relocation struct{ instruction, table int }

const instructionSize = 8

// link returns the instructions for these maps.
func (i *image) link(maps [numMaps]table) []byte {
	code := []byte(i.code)
	for _, r := range i.relocations {
		immediate := code[r.instruction*instructionSize+4:]
		binary.NativeEndian.PutUint32(immediate, uint32(maps[r.table]))
	}
	return code
}

// program is a loaded program's file descriptor.
type program int

// logSize is more than the verifier says of our program. Memory that it doesn't
// write isn't used.
const logSize = 16 << 20

// loadProgram loads the instructions; when the kernel refuses them, it is asked
// once more and for the reason.
func loadProgram(license string, code []byte, flags uint32) (program, error) {
	fd, err := load(license, code, flags, nil)
	if err != nil {
		verifier := make([]byte, logSize)
		if fd, err = load(license, code, flags, verifier); err != nil {
			return -1, refused(err, verifier)
		}
	}
	return program(fd), nil
}

func load(license string, code []byte, flags uint32, verifier []byte) (fd int, err error) {
	var a attr
	a.u32(0, unix.BPF_PROG_TYPE_XDP)
	a.u32(4, uint32(len(code)/instructionSize))
	a.pointer(8, code)
	a.pointer(16, append([]byte(license), 0))
	if verifier != nil {
		a.u32(24, 1) // BPF_LOG_LEVEL1
		a.u32(28, uint32(len(verifier)))
		a.pointer(32, verifier)
	}
	a.u32(44, flags)
	a.name(48, "fastpath")
	a.u32(68, unix.BPF_XDP)
	return a.call(unix.BPF_PROG_LOAD)
}

// refused is the error of a program that wasn't loaded.
func refused(err error, verifier []byte) error {
	text, _, _ := bytes.Cut(verifier, []byte{0})
	if len(text) == 0 {
		return err // no permission, no memory, no JIT
	}
	log, _, _ := strings.Cut(string(text), adviceBegins)
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return &verifierError{err, strings.Join(lines[max(len(lines)-lastLines, 0):], "; ")}
}

// lastLines of the verifier: an instruction, what is wrong with it, a summary.
const lastLines = 3

// adviceBegins parts what is wrong from the page of advice that newer kernels than 6.18 add.
const adviceBegins = "\n\nVerification failed: "

// verifierError says that the verifier refused the program.
type verifierError struct {
	err  error
	last string // of what it said
}

func (e *verifierError) Error() string {
	return fmt.Sprintf("the verifier refuses the program: %v: %s", e.err, e.last)
}

func (e *verifierError) Unwrap() error { return e.err }

// attach attaches the program to a device by a bpf_link, whose file descriptor it returns.
func (p program) attach(ifindex int, mode Mode) (link int, err error) {
	var a attr
	for i, n := range []uint32{uint32(p), uint32(ifindex), unix.BPF_XDP, uint32(mode)} {
		a.u32(4*i, n)
	}
	return a.call(unix.BPF_LINK_CREATE)
}
