// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"fastpath/src/bpf"
	"fastpath/src/state"
	"fastpath/src/xsk"
)

var (
	errQueues   = errors.New("too many receive queues")
	errTransmit = errors.New("the driver can't send what XDP forwards")
	errSlots    = errors.New("no port more")
)

// refusal is a state.Refusal and what it depends on.
type refusal struct {
	state.Refusal
	print fingerprint
	ran   bool // the engine did, and print may be of the port with our program on it
}

// fingerprint is what of a port can make a refused engine possible.
type fingerprint struct {
	index, mtu, queues int
	mac                [6]byte
	xdp                uint32 // somebody else's program
}

func fingerprintOf(l state.Link) fingerprint {
	return fingerprint{index: l.Index, mtu: l.MTU, queues: l.Queues, mac: l.MAC, xdp: l.XDP}
}

// holds: nothing has changed at the port. With our program on it a port may have
// other queues than without, so of a port whose engine ran the look that finds
// it without is the first to compare with; else engines would come and go for ever.
func (r *refusal) holds(l state.Link, ours bool) bool {
	if ours {
		return r.print.index == l.Index
	}
	if r.ran {
		r.ran = false
		index := r.print.index
		r.print = fingerprintOf(l)
		return index == l.Index
	}
	return r.print == fingerprintOf(l)
}

// refuse makes the next Observe say why, and asks for it: what depends on this
// port, such as its rules, has to follow.
func (m *Manager) refuse(l state.Link, want state.Engine, reason string) {
	if r := m.refused[l.Name]; r != nil && r.Want == want {
		r.Reason = reason // a pause that ends in a verdict: what is known of the port stays
	} else {
		m.refused[l.Name] = &refusal{state.Refusal{Want: want, Reason: reason}, fingerprintOf(l), m.own[l.XDP] || m.port(l.Name) != nil}
	}
	m.Log.Warn("no engine", "port", l.Name, "engine", want.String(), "reason", reason)
	m.Changed()
}

// fits says what can be said before anything is tried.
func (m *Manager) fits(l state.Link, want state.Engine) error {
	if len(m.ports) >= bpf.MaxPorts {
		return fmt.Errorf("%w: there are engines on %d", errSlots, bpf.MaxPorts)
	}
	if want.Kind != state.EngineAFXDP {
		return nil
	}
	if m.MemTotal <= leastMemory {
		return fmt.Errorf("%w: engine afxdp locks 1/%d of the memory for packets, and %d MB are too few for that (more than %d are needed)",
			errMemory, umemShare, m.MemTotal>>20, leastMemory>>20)
	}
	if l.MTU > maxMTU {
		return fmt.Errorf("%w: MTU %d, and a frame of engine afxdp holds %d; engine xdp may do", bpf.ErrTooBig, l.MTU, maxMTU)
	}
	for _, p := range m.ports {
		if p.want.Kind == want.Kind && p.want.ZeroCopy != want.ZeroCopy {
			return fmt.Errorf("%w: option zero_copy must be the same on all ports with engine afxdp, %s has another", errMode, p.link.Name)
		}
	}
	return nil
}

var errMode = errors.New("the workers have one mode")

// explain is an error of start in one line for the owner.
func explain(err error, l state.Link, want state.Engine) string {
	var foreign *bpf.ForeignError
	errno := errnoOf(err)
	switch {
	case errors.As(err, &foreign):
		return fmt.Sprintf("XDP program %d of somebody else is attached; it stays", foreign.ID)
	case errors.Is(err, bpf.ErrTooBig) && errno != "":
		return fmt.Sprintf("MTU %d is too big for XDP here %s; most drivers take up to %d", l.MTU, errno, pageMTU())
	case errors.Is(err, bpf.ErrMode):
		mode, hint := "native", "; xdp_mode 'generic' works on every port, but costs it its GRO"
		if want.Generic {
			mode, hint = "generic", ""
		}
		return fmt.Sprintf("%s can't run XDP programs in %s mode %s%s", driver(l), mode, errno, hint)
	case errors.Is(err, unix.EINVAL) && l.MTU > plainMTU && !isBind(err):
		return fmt.Sprintf("%s refuses XDP %s; it may be the MTU of %d, most drivers take up to %d", driver(l), errno, l.MTU, pageMTU())
	case errors.Is(err, unix.ENOSPC):
		return fmt.Sprintf("%s has too few queues for XDP (ENOSPC, errno 28)", driver(l))
	case want.ZeroCopy && isBind(err):
		return fmt.Sprintf("%s can't do zero copy %s; without option zero_copy packets are copied", driver(l), errno)
	}
	return oneLine(err)
}

// isBind: the kernel refused to bind an AF_XDP socket to a queue that is free.
func isBind(err error) bool {
	return (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)) &&
		!errors.Is(err, xsk.ErrQueueBusy) && strings.Contains(err.Error(), "bind: ")
}

// pageMTU is what most drivers take: a frame has to lie in one page with the
// kernel's headroom and the struct skb_shared_info (320 bytes) behind it, as in
// veth_xdp_set and virtnet_xdp_set. Only the MTU's owner may try a lower one.
func pageMTU() int { return os.Getpagesize() - unix.XDP_PACKET_HEADROOM - 320 - 14 }

// plainMTU fits every driver.
const plainMTU = 1500

func driver(l state.Link) string {
	switch {
	case l.Driver != "":
		return "the driver " + l.Driver
	case l.Kind != "":
		return "a " + l.Kind + " device"
	}
	return "the port"
}

func errnoOf(err error) string {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return ""
	}
	name := unix.ErrnoName(errno)
	if errno == unix.EOPNOTSUPP { // has two names
		name = "EOPNOTSUPP"
	}
	return fmt.Sprintf("(%s, errno %d)", name, int(errno))
}

// oneLine is an error as one line; what several say alike, once.
func oneLine(err error) string {
	lines := strings.Split(err.Error(), "\n")
	if len(lines) > 1 && strings.Contains(err.Error(), "verifier") {
		lines = lines[:1] // its log is long
	}
	return strings.Join(lines, "; ")
}
