// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DenySocket makes socket(family, …) fail with errno on the current thread, for
// good, as on a kernel that was built without the family. The caller has locked
// the thread and gives it up afterwards.
func DenySocket(family uint32, errno unix.Errno) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	load, equal, ret := uint16(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS), uint16(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K), uint16(unix.BPF_RET|unix.BPF_K)
	// struct seccomp_data: nr at 0, the first argument's two halves at 16 and 20.
	// Which one holds the family depends on the byte order; the other is 0.
	filter := []unix.SockFilter{
		{Code: load, K: 0},
		{Code: equal, K: unix.SYS_SOCKET, Jf: 5},
		{Code: load, K: 16},
		{Code: equal, K: family, Jt: 2},
		{Code: load, K: 20},
		{Code: equal, K: family, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const setModeFilter = 1 // SECCOMP_SET_MODE_FILTER, include/uapi/linux/seccomp.h
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, 0, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return fmt.Errorf("seccomp: %w", e)
	}
	return nil
}
