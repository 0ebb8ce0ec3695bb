// SPDX-License-Identifier: Apache-2.0

// Package witness looks at every frame that comes in at an endpoint's device,
// and keeps those that no correct router sends. What it knows of packets is its
// own, not the product's.
package witness

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"fastpath/src/testkit"
)

// Witness is a packet socket on one device.
type Witness struct {
	fd   int
	done chan struct{}
	end  chan struct{}

	mu    sync.Mutex
	rules Rules
	seen  int
	wrong []error
	err   error
}

// Start looks at what comes in by the device from now on.
func Start(ns *testkit.Netns, device string, rules Rules) (*Witness, error) {
	w := &Witness{rules: rules, done: make(chan struct{}), end: make(chan struct{})}
	err := ns.Inside(func() error { return w.open(device) })
	if err != nil {
		return nil, fmt.Errorf("witness at %s: %w", device, err)
	}
	go w.run()
	return w, nil
}

func (w *Witness) open(device string) (err error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	w.rules.Own = i.HardwareAddr
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // network byte order; tests run on amd64
	if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
		return err
	}
	const room, tick = 16 << 20, 50 * time.Millisecond
	timeout := unix.NsecToTimeval(int64(tick))
	err = errors.Join(
		unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room),
		unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
		unix.SetsockoptInt(w.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptInt(w.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: i.Index}))
	if err != nil {
		err = errors.Join(err, unix.Close(w.fd))
	}
	return err
}

// Change changes the rules for what comes from now on.
func (w *Witness) Change(f func(*Rules)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.rules)
}

// Stop returns how many frames came and what was wrong, at most a few of them.
// That some were missed is an error.
func (w *Witness) Stop() (seen int, wrong []error, err error) {
	close(w.end)
	<-w.done
	stats, err := unix.GetsockoptTpacketStats(w.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err == nil && stats.Drops > 0 {
		err = fmt.Errorf("the witness missed %d frames", stats.Drops)
	}
	return w.seen, w.wrong, errors.Join(w.err, err, unix.Close(w.fd))
}

func (w *Witness) run() {
	defer close(w.done)
	frame, control := make([]byte, 64<<10), make([]byte, 256)
	for {
		select {
		case <-w.end:
			return
		default:
		}
		n, oobn, _, _, err := unix.Recvmsg(w.fd, frame, control, unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENETDOWN): // the device went down, and may come back
			continue
		case err != nil:
			w.err = os.NewSyscallError("recvmsg", err)
			return
		}
		tag, err := vlan(control[:oobn])
		if err != nil {
			w.err = err
			return
		}
		w.judge(frame[:n], tag)
	}
}

// enough is how many wrong frames are kept.
const enough = 5

func (w *Witness) judge(frame []byte, tag uint16) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen++
	if err := w.rules.Check(frame, tag); err != nil && len(w.wrong) < enough {
		w.wrong = append(w.wrong, fmt.Errorf("frame %d: %w\n%s", w.seen, err, hex.Dump(frame[:min(len(frame), 96)])))
	}
}

// vlan is the tag that the kernel took off the frame; 0: it had none.
func vlan(control []byte) (uint16, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, err
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= int(unsafe.Sizeof(unix.TpacketAuxdata{})) {
			aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0]))
			if aux.Status&unix.TP_STATUS_VLAN_VALID != 0 {
				return aux.Vlan_tci & 0xfff, nil
			}
		}
	}
	return 0, nil
}
