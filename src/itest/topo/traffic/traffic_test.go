// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fastpath/src/testkit"
)

// Every kind of transfer between two namespaces with nothing in between.
func TestRun(t *testing.T) {
	a, b := testkit.NewNetns(t, "client"), testkit.NewNetns(t, "server")
	if err := testkit.Connect(a, "eth0", b, "eth0"); err != nil {
		t.Fatal(err)
	}
	for i, ns := range []*testkit.Netns{a, b} {
		address := []string{"10.0.0.1/24 dev eth0; ip addr add fd00::1/64", "10.0.0.2/24 dev eth0; ip addr add fd00::2/64"}[i]
		if _, err := ns.Sh("echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; ip addr add " + address + " dev eth0 nodad"); err != nil {
			t.Fatal(err)
		}
	}
	for _, addr := range []string{"10.0.0.2", "fd00::2"} {
		for _, udp := range []bool{false, true} {
			for _, up := range []bool{false, true} {
				steady := 0
				c := Transfer{Client: a, Server: b, Addr: netip.MustParseAddr(addr), Port: 5000, UDP: udp, Up: up,
					Bytes: 3_000_000, Steady: func() error { steady++; return nil }}
				r, err := c.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if steady != 1 || r.Sent < c.Bytes || r.Sent > c.Bytes+payload || r.Received != r.Sent || r.Elapsed <= 0 || r.Gap > r.Elapsed {
					t.Errorf("%s: %+v, %d calls of Steady", c, r, steady)
				}
			}
		}
	}
}

// A stream goes both ways, and shows for how long a link that was down has stopped it.
func TestStream(t *testing.T) {
	a, b := testkit.NewNetns(t, "client"), testkit.NewNetns(t, "server")
	testkit.Veth(t, a, "eth0", b, "eth0")
	a.Run(t, "ip addr add 10.0.0.1/24 dev eth0")
	b.Run(t, "ip addr add 10.0.0.2/24 dev eth0")
	s, err := Stream{Client: a, Server: b, Addr: netip.MustParseAddr("10.0.0.2"), Port: 5000, Rate: 1000, Size: 200}.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const most = time.Minute
	more := func(what string) {
		t.Helper()
		up, down := s.Up.Packets(), s.Down.Packets()
		for start := time.Now(); s.Up.Packets() < up+100 || s.Down.Packets() < down+100; time.Sleep(time.Millisecond) {
			if time.Since(start) > most {
				t.Fatalf("%s: %d packets up, %d down", what, s.Up.Packets()-up, s.Down.Packets()-down)
			}
		}
	}
	more("at first")
	s.Begin()
	const down = 300 * time.Millisecond
	a.Run(t, "ip link set eth0 down")
	time.Sleep(down)
	a.Run(t, "ip link set eth0 up")
	more("after the fault")
	up, back, err := s.End()
	if err != nil || up.Gap < down || back.Gap < down || up.Received < 100 || back.Received < 100 {
		t.Errorf("up %+v, down %+v, %v", up, back, err)
	}
}

// A receiver notices each kind of damage to a stream.
func TestReceiveTCP(t *testing.T) {
	const warm, end = 1000, 100_000
	for _, c := range []struct {
		name, want string
		damage     func([]byte) []byte
	}{
		{"none", "", func(b []byte) []byte { return b }},
		{"a bit", "wrong bytes", func(b []byte) []byte { b[end/2] ^= 1; return b }},
		{"a byte missing", "wrong bytes", func(b []byte) []byte { return slices.Delete(b, warm, warm+1) }},
		{"a packet twice", "wrong bytes", func(b []byte) []byte { return slices.Insert(b, payload, b[:payload]...) }},
		{"cut off", "unexpected EOF", func(b []byte) []byte { return b[:end-1] }},
	} {
		var stream []byte
		for off := int64(0); off < end; off += payload {
			stream = append(stream, at(off, int(min(payload, end-off)))...)
		}
		from, to := net.Pipe()
		go func() { to.Write(c.damage(stream)); to.Close() }()
		err := receiveTCP(from, warm, end, make(chan struct{}), &meter{})
		from.Close()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// A receiver notices damage to a packet, counts only the measured part, and
// answers when asked to.
func TestReceiveUDP(t *testing.T) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	self := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	packet := func(word uint64) []byte {
		b := binary.BigEndian.AppendUint64(nil, word)
		return append(b, at(int64(word&^answerNow)*payload, payload-header)...)
	}
	r := &receiver{conn: conn, m: &meter{}}
	for _, word := range []uint64{WarmPackets - 1, WarmPackets, WarmPackets + 1 | answerNow} {
		if err := r.packet(packet(word), self); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.m.result(0).Received; got != 2*(payload-header) {
		t.Errorf("counted %d bytes, want those of two packets", got)
	}
	var answer [payload]byte
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := io.ReadAtLeast(conn, answer[:], header); err != nil || n != header || answer[7] != WarmPackets+1 {
		t.Errorf("answer % x, %v; want the header of packet %d", answer[:n], err, WarmPackets+1)
	}
	for name, b := range map[string][]byte{
		"a bit":          func() []byte { b := packet(7); b[payload/2] ^= 1; return b }(),
		"another number": append(binary.BigEndian.AppendUint64(nil, 8), packet(7)[header:]...),
		"short":          packet(7)[:payload-1],
	} {
		if r.packet(b, self) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
