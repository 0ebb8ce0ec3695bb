// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"net"
	"time"

	"github.com/asavie/xdp"
	"golang.org/x/sys/unix"
)

// Peer is the other end of the router's wire: an AF_XDP socket of another make
// (github.com/asavie/xdp) that sends frames and receives all that arrives.
type Peer struct {
	MAC     [6]byte
	ifindex int
	program *xdp.Program
	socket  *xdp.Socket
	queued  int // transmitted and not completed
}

const peerFrames = 1024

// NewPeer attaches to queue 0 of a device in the current network namespace. It
// removes any other XDP program there: that is the library's way.
func NewPeer(device string) (p *Peer, err error) {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	p = &Peer{ifindex: dev.Index}
	copy(p.MAC[:], dev.HardwareAddr)
	if p.program, err = xdp.NewProgram(1); err != nil {
		return nil, fmt.Errorf("peer %s: program: %w", device, err)
	}
	if err := p.program.Attach(p.ifindex); err != nil {
		return nil, fmt.Errorf("peer %s: attach: %w", device, err)
	}
	p.socket, err = xdp.NewSocket(p.ifindex, 0, &xdp.SocketOptions{
		NumFrames: peerFrames, FrameSize: 2048, FillRingNumDescs: peerFrames / 2, CompletionRingNumDescs: peerFrames,
		RxRingNumDescs: peerFrames / 2, TxRingNumDescs: peerFrames / 2,
	})
	if err != nil {
		return nil, fmt.Errorf("peer %s: socket: %w", device, err)
	}
	if err := p.program.Register(0, p.socket.FD()); err != nil {
		return nil, fmt.Errorf("peer %s: register: %w", device, err)
	}
	p.refill()
	return p, nil
}

// refill keeps half of the frames for receiving.
func (p *Peer) refill() {
	p.socket.Fill(p.socket.GetDescs(min(p.socket.NumFreeFillSlots(), peerFrames/2-p.socket.NumFilled())))
}

// reap takes completions; without it the library's transmit stops for good.
func (p *Peer) reap() {
	n := p.socket.NumCompleted()
	p.socket.Complete(n)
	p.queued -= n
}

// Send sends frames, and returns when the kernel has taken them all.
func (p *Peer) Send(frames ...[]byte) error {
	for len(frames) > 0 {
		p.reap()
		n := min(len(frames), 64, p.socket.NumFreeTxSlots(), peerFrames/2-p.queued)
		descs := p.socket.GetDescs(n)
		for i := range descs {
			descs[i].Len = uint32(copy(p.socket.GetFrame(descs[i]), frames[i]))
		}
		n = p.socket.Transmit(descs)
		p.queued += n
		frames = frames[n:]
	}
	for deadline := time.Now().Add(time.Minute); p.queued > 0; p.reap() {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d frames of a peer are not sent after a minute", p.queued)
		}
		p.socket.Transmit(nil) // a kick: one call sends 32
	}
	return nil
}

// Receive waits up to timeout for frames, and returns copies of what arrived.
func (p *Peer) Receive(timeout time.Duration) (frames [][]byte, err error) {
	fds := []unix.PollFd{{Fd: int32(p.socket.FD()), Events: unix.POLLIN}}
	if _, err := unix.Poll(fds, int(timeout.Milliseconds())); err != nil && err != unix.EINTR {
		return nil, err
	}
	for _, d := range p.socket.Receive(p.socket.NumReceived()) {
		frames = append(frames, append([]byte(nil), p.socket.GetFrame(d)...))
	}
	p.refill()
	return frames, nil
}

// Close detaches and closes. What the library leaks ends with the process.
func (p *Peer) Close() error {
	err := p.program.Detach(p.ifindex)
	if e := p.socket.Close(); err == nil {
		err = e
	}
	if e := p.program.Close(); err == nil {
		err = e
	}
	return err
}
