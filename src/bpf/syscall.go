// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attr is the part of union bpf_attr (include/uapi/linux/bpf.h) that we use. Its
// fields stand at the same offsets on every CPU; pointers have 64 bits. A kernel
// that knows less of it wants zeros there.
type attr struct {
	bytes [72]byte
	pins  runtime.Pinner
}

func (a *attr) u32(off int, n uint32) { binary.NativeEndian.PutUint32(a.bytes[off:], n) }

// pointer puts b's address; b isn't empty. Until the call has ended it is
// pinned: it neither moves nor goes, though nothing that Go knows points to it.
func (a *attr) pointer(off int, b []byte) {
	first := unsafe.SliceData(b)
	a.pins.Pin(first)
	binary.NativeEndian.PutUint64(a.bytes[off:], uint64(uintptr(unsafe.Pointer(first))))
}

// name puts an object's name, of which the last byte has to stay 0.
func (a *attr) name(off int, name string) {
	copy(a.bytes[off:off+unix.BPF_OBJ_NAME_LEN-1], name)
}

// attempts of a call: the verifier gives up when a signal comes in.
const attempts = 5

// call is bpf(2); it returns a file descriptor (close-on-exec, always) if the
// command makes one. It ends the pointers' pinning: an attr is for one call.
func (a *attr) call(command int) (fd int, err error) {
	defer a.pins.Unpin()
	for range attempts {
		n, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(unsafe.Pointer(&a.bytes)), uintptr(len(a.bytes)))
		if errno == 0 {
			return int(n), nil
		}
		if err = errno; errno != unix.EAGAIN {
			break
		}
	}
	return -1, err
}
