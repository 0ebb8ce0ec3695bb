// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// What callers decide on. Each is matched with errors.Is.
var (
	// ErrVanished: a device or a table that the step named is gone. Look again.
	ErrVanished = errors.New("it is gone, look again")
	// ErrPermission: the process may not change or read the network's settings.
	ErrPermission = errors.New("not allowed: CAP_NET_ADMIN is missing")
	// ErrNoFlowtable: the kernel can't do flowtables, whatever the hook.
	ErrNoFlowtable = errors.New("the kernel has no flowtables (nf_flow_table, nft_flow_offload; on OpenWrt kmod-nft-offload)")
)

// errInterrupted: the kernel's tables changed while they were read.
var errInterrupted = errors.New("it changed while it was read")

// Error is one refused request as one readable line.
type Error struct {
	Op     string // what was wanted: a step's text, or what was read
	Object string // the device, chain or rule that it failed for; "" when the kernel doesn't tell
	Kind   error  // one of the sentinels, or nil
	Err    error  // what the kernel answered, an errno as a rule
}

func (e *Error) Error() string {
	s := e.Op
	if e.Object != "" {
		s += ": " + e.Object
	}
	if e.Kind != nil {
		return s + ": " + e.Kind.Error()
	}
	return s + ": " + Explain(e.Err)
}

// Unwrap makes errors.Is and errors.As see the sentinel and the errno.
func (e *Error) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Err}
	}
	return []error{e.Kind, e.Err}
}

// refused wraps what the kernel said to op; the sentinel follows from the
// errno where the errno alone is enough.
func refused(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Err: err}
	var r *refusal
	if errors.As(err, &r) {
		e.Object, e.Err = r.what, r.err
	}
	switch kernelErrno(err) {
	case unix.EPERM, unix.EACCES:
		e.Kind = ErrPermission
	case unix.ENODEV:
		e.Kind = ErrVanished
	}
	return e
}

// kernelErrno is the errno of a refused request; 0 for an error of another
// kind, such as one of a file.
func kernelErrno(err error) unix.Errno {
	var file *fs.PathError
	var errno unix.Errno
	if errors.As(err, &file) || !errors.As(err, &errno) {
		return 0
	}
	return errno
}

// meanings are the errnos that netlink, nftables and ethtool answer, in the
// words of somebody who owns a router.
var meanings = map[unix.Errno]string{
	unix.ENOENT:          "there is no such thing (a device, a table, or a kernel module is missing)",
	unix.ENODEV:          "there is no such device",
	unix.EPERM:           "not allowed: CAP_NET_ADMIN is missing",
	unix.EACCES:          "not allowed",
	unix.EOPNOTSUPP:      "the kernel or the driver can't do this (no such hook, or no hardware support)",
	unix.EBUSY:           "still in use: a rule refers to it, or somebody else holds it",
	unix.EEXIST:          "it is there already (a device can be in one flowtable of a table only)",
	unix.EINVAL:          "the kernel does not accept this request",
	unix.ENOBUFS:         "the kernel had more to say than fits into the socket",
	unix.ENOMEM:          "the kernel is out of memory",
	unix.EPROTONOSUPPORT: "the kernel has no such netlink protocol (nfnetlink is missing)",
	unix.ERANGE:          "a value is out of range",
	unix.EAGAIN:          "the kernel did not answer in time",
	unix.ENAMETOOLONG:    "a name is too long",
	unix.ENFILE:          "a kernel table is full",
	unix.EFBIG:           "too many devices for one request",
	unix.E2BIG:           "a name is too long",
	unix.EROFS:           "it can only be read here",
	unix.ENOSPC:          "the disk is full",
}

// Explain says in one line what err means: its own words, with the errno's
// name put into words that help, and the errno in brackets.
func Explain(err error) string {
	if err == nil {
		return "no error"
	}
	line := strings.ReplaceAll(err.Error(), "\n", "; ")
	var done *Error
	var errno unix.Errno
	if errors.As(err, &done) || !errors.As(err, &errno) {
		return line
	}
	text, ok := meanings[errno]
	if !ok {
		text = errno.Error()
	}
	return strings.Replace(line, errno.Error(), text+" "+code(errno), 1)
}

// code is an errno in brackets, as a bug report needs it. Its number differs
// between CPUs.
func code(errno unix.Errno) string {
	name := unix.ErrnoName(errno)
	if errno == unix.EOPNOTSUPP { // has two names
		name = "EOPNOTSUPP"
	}
	return fmt.Sprintf("(%s, errno %d)", name, int(errno))
}
