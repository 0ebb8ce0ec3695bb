// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"os"
	"strings"
	"testing"

	"fastpath/src/testkit"

	"golang.org/x/sys/unix"
)

// What the verifier refuses is refused with its reason, in one line, and isn't
// taken for want of privilege or an old kernel.
func TestVerifierRefuses(t *testing.T) {
	testkit.Need(t, os.Getuid() == 0, "BPF needs root")
	const exit = "\x95\x00\x00\x00\x00\x00\x00\x00"
	_, err := loadProgram("GPL", []byte(exit), 0)
	err = explain(err)
	if !errors.Is(err, unix.EACCES) || errors.Is(err, ErrPermission) || errors.Is(err, ErrNotSupported) {
		t.Errorf("a program without a return value: %v", err)
	}
	if err == nil || !strings.Contains(err.Error(), "R0 !read_ok") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a program without a return value: %v", err)
	}
}

// The end of a long log, and no log.
func TestRefusal(t *testing.T) {
	for end, want := range map[string]string{
		"1\n2\n3\n": "1; 2; 3",
		"1\n2\n3\n\nVerification failed: Register\n\nReason:\n  R0\n\nprocessed 1 insns\n": "1; 2; 3",
	} {
		log := append([]byte(strings.Repeat("0: (95) exit\n", 1000)+end), make([]byte, 100)...)
		want = "the verifier refuses the program: invalid argument: " + want
		if got := refused(unix.EINVAL, log).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := refused(unix.EPERM, make([]byte, 100)); err != unix.EPERM {
		t.Errorf("without a log: %v", err)
	}
}

// A relocation changes an instruction's immediate and nothing else.
func TestLink(t *testing.T) {
	var maps [numMaps]table
	for i := range maps {
		maps[i] = table(0x01020304 + i)
	}
	code := fastpath.link(maps)
	next := fastpath.relocations
	for i := range len(code) / instructionSize {
		got, want := code[i*instructionSize:][:instructionSize], []byte(fastpath.code[i*instructionSize:][:instructionSize])
		if len(next) > 0 && next[0].instruction == i {
			copy(want[4:], word(uint32(maps[next[0].table])))
			next = next[1:]
		}
		if string(got) != string(want) {
			t.Errorf("instruction %d: %x, want %x", i, got, want)
		}
	}
	if len(next) > 0 {
		t.Errorf("relocations %v are behind the program's end", next)
	}
}
