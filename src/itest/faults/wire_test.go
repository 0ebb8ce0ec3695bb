// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"
	"unsafe"

	"fastpath/src/testkit"

	"golang.org/x/sys/unix"
)

type mac = [6]byte

// wire is the outer end of a cable: a raw socket that sends frames and shows
// all that arrive, with the kernel's time stamps. It answers ARP for the hosts
// that are plugged into it; their addresses are not the kernel's.
type wire struct {
	ns   *testkit.Netns
	dev  string
	mu   sync.Mutex
	sock *os.File // nil: unplugged
	arp  map[netip.Addr]mac
	taps []func(w *wire, at time.Time, frame []byte)
	done sync.WaitGroup
}

// plug opens the socket on the device, which must be there.
func (w *wire) plug(t testing.TB) {
	t.Helper()
	var sock *os.File
	w.ns.Do(t, func() {
		var err error
		if sock, err = rawSocket(w.dev); err != nil {
			t.Fatalf("raw socket on %s: %v", w.dev, err)
		}
	})
	w.mu.Lock()
	w.sock = sock
	w.mu.Unlock()
	w.done.Go(func() { w.read(sock) })
}

// unplug closes the socket and waits until nothing is read any more.
func (w *wire) unplug() {
	w.mu.Lock()
	sock := w.sock
	w.sock = nil
	w.mu.Unlock()
	if sock != nil {
		sock.Close()
	}
	w.done.Wait()
}

func rawSocket(dev string) (*os.File, error) {
	link, err := net.InterfaceByName(dev)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0300, Ifindex: link.Index})) // ETH_P_ALL, big endian
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), dev), nil
}

// read hands every frame on until the socket is closed.
func (w *wire) read(sock *os.File) {
	conn, err := sock.SyscallConn()
	if err != nil {
		return
	}
	frame, oob := make([]byte, 64<<10), make([]byte, 256)
	for {
		var n, oobn int
		var failed error
		err := conn.Read(func(fd uintptr) bool {
			n, oobn, _, _, failed = unix.Recvmsg(int(fd), frame[4:], oob, 0)
			return failed != unix.EAGAIN
		})
		if err != nil {
			return
		}
		if failed == nil { // else it is ENETDOWN, once
			at, whole := decode(frame, n, oob[:oobn])
			w.receive(at, whole)
		}
	}
}

// decode gives the time stamp, and the frame with the VLAN tag that the kernel
// has taken out. buf has 4 bytes of room before the frame of n bytes.
func decode(buf []byte, n int, oob []byte) (at time.Time, frame []byte) {
	frame = buf[4 : 4+n]
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return time.Now(), frame
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS:
			ts := (*unix.Timespec)(unsafe.Pointer(&m.Data[0]))
			at = time.Unix(ts.Unix())
		case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA:
			aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0]))
			if aux.Status&unix.TP_STATUS_VLAN_VALID != 0 {
				copy(buf, buf[4:16])
				binary.BigEndian.PutUint16(buf[12:], aux.Vlan_tpid)
				binary.BigEndian.PutUint16(buf[14:], aux.Vlan_tci)
				frame = buf[:4+n]
			}
		}
	}
	return at, frame
}

func (w *wire) receive(at time.Time, frame []byte) {
	if w.answerARP(frame) {
		return
	}
	w.mu.Lock()
	taps := w.taps
	w.mu.Unlock()
	for _, tap := range taps {
		tap(w, at, frame)
	}
}

// tap adds a listener for all frames but ARP.
func (w *wire) tap(f func(w *wire, at time.Time, frame []byte)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taps = append(w.taps[:len(w.taps):len(w.taps)], f)
}

// send sends a frame; on an unplugged or dead wire it is lost.
func (w *wire) send(frame []byte) {
	w.mu.Lock()
	sock := w.sock
	w.mu.Unlock()
	if sock != nil {
		_, _ = sock.Write(frame) // ENETDOWN, ENXIO: as on a cable that nobody holds
	}
}

// own makes the wire answer ARP for ip with that MAC, and tells it to all by a
// gratuitous ARP (RFC 5227 section 3).
func (w *wire) own(ip netip.Addr, m mac) {
	w.mu.Lock()
	w.arp[ip] = m
	w.mu.Unlock()
	broadcast := mac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	w.send(arpFrame(1, broadcast, m, ip, mac{}, ip))
}

// disown ends that.
func (w *wire) disown(ip netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.arp, ip)
}

// arpFrame is an ARP request (1) or reply (2), RFC 826.
func arpFrame(op byte, dst, src mac, srcIP netip.Addr, target mac, targetIP netip.Addr) []byte {
	b := append(append([]byte(nil), dst[:]...), src[:]...)
	b = append(b, 8, 6, 0, 1, 8, 0, 6, 4, 0, op)
	b = append(append(b, src[:]...), srcIP.AsSlice()...)
	b = append(append(b, target[:]...), targetIP.AsSlice()...)
	return append(b, make([]byte, 60-len(b))...)
}

func (w *wire) answerARP(b []byte) bool {
	if len(b) < 42 || !bytes.Equal(b[12:14], []byte{8, 6}) {
		return false
	}
	asker, _ := netip.AddrFromSlice(b[28:32])
	asked, _ := netip.AddrFromSlice(b[38:42])
	w.mu.Lock()
	m, ours := w.arp[asked]
	w.mu.Unlock()
	if ours && b[21] == 1 && asker != asked {
		to := mac(b[22:28])
		w.send(arpFrame(2, to, m, asked, to, asker))
	}
	return true
}
