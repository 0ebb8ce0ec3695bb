// SPDX-License-Identifier: Apache-2.0

package icount

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"fastpath/src/itest/topo"
)

// burst is how many packets are on the way at a time.
const burst = 64

// size is the length of a frame.
const size = 128

// generator is host1 on one wire and the provider on the other.
type generator struct{ lan, wan wire }

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

func (w *wire) send(frame []byte, times int) error {
	one := append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
	_, err := w.conn.Write(bytes.Repeat(one, times))
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
func listen(lan, wan string) (g *generator, err error) {
	g = &generator{}
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
// lets the provider answer the last packet, and so on until the VM ends. Where
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
	up, err := frame(lanMAC, hostMAC, topo.Host1v4, topo.Serverv4, hostPort, serverPort)
	for err == nil {
		if err = g.lan.send(up, burst); err != nil {
			break
		}
		last, open := collect(came)
		if !open {
			break
		}
		if last != nil {
			err = g.answer(last)
		}
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) {
		return nil // the VM has ended
	}
	return err
}

// answer sends a packet back to where NAT has put its sender.
func (g *generator) answer(packet []byte) error {
	port := binary.BigEndian.Uint16(packet[34:]) // UDP's source
	down, err := frame(wanMAC, providerMAC, topo.Serverv4, topo.RouterWANv4, serverPort, port)
	if err != nil {
		return err
	}
	return g.wan.send(down, 1)
}

// patience is how long a burst may take; the VM's CPU is emulated.
const patience = 5 * time.Second

// collect takes a burst's packets and returns the last, or nil if none came;
// open is whether more can come.
func collect(came <-chan []byte) (last []byte, open bool) {
	late := time.After(patience)
	for range burst {
		select {
		case f, ok := <-came:
			if !ok {
				return nil, false
			}
			last = f
		case <-late:
			return last, true
		}
	}
	return last, true
}

// frame is UDP over IPv4 with size bytes and without a UDP checksum.
func frame(dstMAC, srcMAC, src, dst string, sport, dport uint16) ([]byte, error) {
	f := make([]byte, size)
	to, err := net.ParseMAC(dstMAC)
	if err != nil {
		return nil, err
	}
	from, err := net.ParseMAC(srcMAC)
	if err != nil {
		return nil, err
	}
	copy(f, to)
	copy(f[6:], from)
	binary.BigEndian.PutUint16(f[12:], 0x0800)
	ip := f[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:16], net.ParseIP(src).To4())
	copy(ip[16:20], net.ParseIP(dst).To4())
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint16(ip[20:], sport)
	binary.BigEndian.PutUint16(ip[22:], dport)
	binary.BigEndian.PutUint16(ip[24:], uint16(len(ip)-20))
	if len(f) != size {
		return nil, fmt.Errorf("a frame of %d bytes", len(f))
	}
	return f, nil
}
