// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"
	"time"
	"unsafe"

	"fastpath/src/itest/engine"
	"fastpath/src/packet"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// checkFrames lets all of a scene's flows through the router until each has
// arrived, and compares every byte with frames that are built from scratch.
func checkFrames(t *testing.T, b *bed, s scene) {
	t.Helper()
	letUp(t, b)
	defer func() {
		if err := b.sink.link.Update(b.sink.prog); err != nil {
			t.Error(err)
		}
	}()
	g, err := b.generator(s)
	if err != nil {
		t.Fatal(err)
	}
	fd := listen(t, b)
	defer unix.Close(fd)
	missing := map[int]bool{}
	for i := range s.flows {
		missing[i] = true
	}
	for deadline := time.Now().Add(2 * time.Minute); len(missing) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d flows never arrived", s, len(missing))
		}
		sent := make(chan error, 1)
		go func() {
			_, err := g.send(s.flows, 100_000)
			sent <- err
		}()
		compare(t, b, s, fd, missing)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

// letUp exchanges the sink for a program that gives everything to the stack.
func letUp(t *testing.T, b *bed) {
	t.Helper()
	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Close()
	if err := b.sink.link.Update(pass); err != nil {
		t.Fatal(err)
	}
}

// listen opens a packet socket on the far end.
func listen(t *testing.T, b *bed) (fd int) {
	t.Helper()
	b.dst.Do(t, func() {
		var err error
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
		for _, err := range []error{
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 512<<20),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: b.index[b.d0]}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	return fd
}

// compare receives until nothing comes any more or all flows have arrived.
func compare(t *testing.T, b *bed, s scene, fd int, missing map[int]bool) {
	t.Helper()
	buf, oob := make([]byte, 2048), make([]byte, 128)
	for len(missing) > 0 {
		n, oobn, _, _, err := unix.Recvmsg(fd, buf, oob, 0)
		if err == unix.EAGAIN {
			return
		}
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		frame := retag(t, buf[:n], oob[:oobn])
		l3 := 14 + pushed[b.encap]
		if len(frame) < l3+28 {
			t.Fatalf("%s: a frame that nobody sent:\n%s", s, hex.Dump(frame))
		}
		port := binary.BigEndian.Uint16(frame[l3+20:]) - b.leaving(0).Port()
		i := int(port) | int(10-frame[l3+19])<<portBits
		if want := b.arriving(i, s.size); !bytes.Equal(frame, want) {
			t.Fatalf("%s: flow %d came as\n%sshould be\n%s", s, i, hex.Dump(frame), hex.Dump(want))
		}
		delete(missing, i)
	}
}

// retag puts a VLAN tag back that the kernel has taken off before the socket.
func retag(t *testing.T, frame, oob []byte) []byte {
	t.Helper()
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA {
			continue
		}
		aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0]))
		if aux.Status&unix.TP_STATUS_VLAN_VALID != 0 {
			tag := binary.BigEndian.AppendUint16(nil, aux.Vlan_tpid)
			tag = binary.BigEndian.AppendUint16(tag, aux.Vlan_tci)
			return bytes.Join([][]byte{frame[:12], tag, frame[12:]}, nil)
		}
	}
	return frame
}

// arriving is a flow's frame as it should leave the bed's router.
func (b *bed) arriving(i, size int) []byte {
	f := engine.Frame{Dst: b.mac[b.d0], Src: b.mac[b.r1], Proto: packet.UDP, TTL: 63,
		From: b.leaving(i), To: flowTarget(i), Payload: payload(i, size)}
	if b.by == byDevmap || b.by == byL2fwd {
		f.TTL = 64 // they don't look
	}
	switch b.encap {
	case vlanPPPoE:
		f.VLANs, f.Session = []uint16{vlanID}, session
	case dslite:
		frame := f.Bytes()
		inner := frame[14:]
		outer := []byte{0x60, 0, 0, 0, byte(len(inner) >> 8), byte(len(inner)), 4, 64}
		outer = append(append(outer, b4.AsSlice()...), aftr.AsSlice()...)
		return bytes.Join([][]byte{frame[:12], {0x86, 0xdd}, outer, inner}, nil)
	}
	return f.Bytes()
}
