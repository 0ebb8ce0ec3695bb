// SPDX-License-Identifier: Apache-2.0

package icount

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"fastpath/src/itest/topo"
)

// burst is how many packets are on the way at a time.
const burst = 64

// size is the length of a frame.
const size = 128

// generator is host1 on one wire and the provider on the other.
type generator struct {
	lan, wan wire
	flows    int
	answered map[uint16]int // by the port that NAT gave the flow
}

// wire is a NIC of the VM, as vm.Config.Sockets has it.
type wire struct {
	listener net.Listener
	conn     net.Conn
	in       *bufio.Reader
}

func (w *wire) accept() (err error) {
	if w.conn, err = w.listener.Accept(); err == nil {
		w.in = bufio.NewReader(w.conn)
	}
	return err
}

func (w *wire) close() {
	w.listener.Close()
	if w.conn != nil {
		w.conn.Close()
	}
}

func (w *wire) send(frames ...[]byte) error {
	var all []byte
	for _, f := range frames {
		all = append(binary.BigEndian.AppendUint32(all, uint32(len(f))), f...)
	}
	_, err := w.conn.Write(all)
	return err
}

func (w *wire) receive() (frame []byte, err error) {
	var length [4]byte
	if _, err = io.ReadFull(w.in, length[:]); err != nil {
		return nil, err
	}
	frame = make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err = io.ReadFull(w.in, frame)
	return frame, err
}

// listen makes the sockets that the VM connects to.
func listen(lan, wan string, flows int) (g *generator, err error) {
	g = &generator{flows: flows, answered: map[uint16]int{}}
	if g.lan.listener, err = net.Listen("unix", lan); err != nil {
		return nil, err
	}
	if g.wan.listener, err = net.Listen("unix", wan); err != nil {
		return nil, errors.Join(err, g.lan.listener.Close())
	}
	return g, nil
}

func (g *generator) close() {
	g.lan.close()
	g.wan.close()
}

// run sends a burst from the LAN, waits until all of it has come out at the WAN,
// lets the provider answer one packet, and so on until the VM ends. Where
// packets don't come, because the router isn't ready or lost one, it goes on.
func (g *generator) run() error {
	if err := errors.Join(g.lan.accept(), g.wan.accept()); err != nil {
		return err
	}
	go io.Copy(io.Discard, g.lan.in)
	came := make(chan []byte, burst)
	go func() {
		defer close(came)
		for {
			f, err := g.wan.receive()
			if err != nil {
				return
			}
			if len(f) == size && binary.BigEndian.Uint16(f[12:]) == 0x0800 && f[23] == 17 { // else it is the router's own
				came <- f
			}
		}
	}()
	up, err := g.burst()
	for err == nil {
		if err = g.lan.send(up...); err != nil {
			break
		}
		ports, open := collect(came)
		if !open {
			break
		}
		if len(ports) > 0 {
			err = g.answer(ports)
		}
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) {
		return nil // the VM has ended
	}
	return err
}

// burst is what the host sends: the flows' packets in turn.
func (g *generator) burst() (frames [][]byte, err error) {
	for i := range burst {
		f, err := frame(lanMAC, hostMAC, topo.Host1v4, topo.Serverv4, hostPort+uint16(i%g.flows), serverPort)
		if err != nil {
			return nil, err
		}
		frames = append(frames, f)
	}
	return frames, nil
}

// answer sends one packet back, to the flow among those that had the fewest.
func (g *generator) answer(ports []uint16) error {
	port := slices.MinFunc(ports, func(a, b uint16) int { return g.answered[a] - g.answered[b] })
	g.answered[port]++
	down, err := frame(wanMAC, providerMAC, topo.Serverv4, topo.RouterWANv4, serverPort, port)
	if err != nil {
		return err
	}
	return g.wan.send(down)
}

// patience is how long a burst may take; the VM's CPU is emulated.
const patience = 5 * time.Second

// collect takes a burst's packets and returns the ports that NAT gave them; open
// is whether more can come.
func collect(came <-chan []byte) (ports []uint16, open bool) {
	late := time.After(patience)
	for range burst {
		select {
		case f, ok := <-came:
			if !ok {
				return nil, false
			}
			ports = append(ports, binary.BigEndian.Uint16(f[34:])) // UDP's source
		case <-late:
			return ports, true
		}
	}
	return ports, true
}
