// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// around puts tags and PPPoE between an Ethernet header and an IP packet with a source.
func around(f state.DropForm, source netip.Addr) []byte {
	frame := []byte("\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01")
	for i, typ := range f.Tags {
		frame = binary.BigEndian.AppendUint16(frame, typ)
		frame = append(frame, 0, byte(7+i))
	}
	ip, typ, ppp := make([]byte, 20, 40), uint16(unix.ETH_P_IP), uint16(pppIPv4)
	ip[0], ip[3], ip[8], ip[9] = 0x45, 20, 64, 17
	copy(ip[12:], source.AsSlice())
	if source.Is6() {
		ip, typ, ppp = make([]byte, 40), unix.ETH_P_IPV6, pppIPv6
		ip[0], ip[6], ip[7] = 0x60, 59, 64
		copy(ip[8:], source.AsSlice())
	}
	if f.PPPoE {
		frame = binary.BigEndian.AppendUint16(frame, pppoeType)
		frame = append(frame, 0x11, 0, 0, 1, 0, byte(len(ip)+2))
		typ = ppp
	}
	frame = append(binary.BigEndian.AppendUint16(frame, typ), ip...)
	return append(frame, make([]byte, max(60-len(frame), 0))...)
}

// sendFrame sends one frame n times out of a device.
func sendFrame(t testing.TB, device string, frame []byte, n int) {
	t.Helper()
	l, err := netlink.LinkByName(device)
	must(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	for range n {
		must(t, unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index}))
	}
}

func prefixes4(list ...string) (ranges [][2][4]byte) {
	for _, p := range list {
		s := spanOf(netip.MustParsePrefix(p))
		ranges = append(ranges, [2][4]byte{[4]byte(s.first), [4]byte(s.last)})
	}
	return ranges
}

func prefixes6(list ...string) (ranges [][2][16]byte) {
	for _, p := range list {
		s := spanOf(netip.MustParsePrefix(p))
		ranges = append(ranges, [2][16]byte{[16]byte(s.first), [16]byte(s.last)})
	}
	return ranges
}

// dropForms are what the kernel sees at netdev ingress; the frame has one tag more
// on the wire where the first one is taken off.
var dropForms = []state.DropForm{
	{}, {PPPoE: true}, {Tags: []uint16{state.TypeVLAN}}, {Tags: []uint16{state.TypeVLAN}, PPPoE: true},
	{Tags: []uint16{state.TypeVLAN, state.TypeVLAN}},
}

func testDrop(devices ...string) state.Drop {
	d := state.Drop{Sets: []state.DropSet{
		{Name: "v4-1", Family: "ipv4", V4: prefixes4("198.51.100.0/24", "203.0.113.7/32", "255.0.0.0/8")},
		{Name: "v6-1", Family: "ipv6", V6: prefixes6("2001:db8:bad::/48")},
	}}
	for _, name := range devices {
		d.Chains = append(d.Chains, state.DropChain{Port: name, Forms: dropForms})
	}
	return d
}

func droppedAt(t testing.TB, k *Kernel, device string) uint64 {
	t.Helper()
	c, err := k.Counters()
	must(t, err)
	return c.Dropped[device]
}

// TestDrop: what is listed is dropped, whatever lies around it, and nothing else.
func TestDrop(t *testing.T) {
	inNamespace(t)
	veth(t, "wan")
	run(t, "ip link set peer-wan up")
	k := newKernel(t)
	d := testDrop("wan")
	apply(t, k, state.SetDrop{Drop: d})
	if got := observe(t, k).Drop; !got.Is(&d) {
		t.Fatalf("read back %+v, want %+v", got, d.State())
	}
	for _, tt := range []struct {
		source string
		listed bool
	}{
		{"198.51.100.0", true}, {"198.51.100.255", true}, {"198.51.99.255", false}, {"198.51.101.0", false},
		{"203.0.113.7", true}, {"203.0.113.8", false}, {"255.255.255.255", true}, {"254.255.255.255", false},
		{"2001:db8:bad::1", true}, {"2001:db8:bad:ffff:ffff::", true}, {"2001:db8:bae::", false}, {"2001:db8:bac:ffff::", false},
	} {
		for _, wire := range wireForms() {
			before := droppedAt(t, k, "wan")
			sendFrame(t, "peer-wan", around(wire, netip.MustParseAddr(tt.source)), 3)
			if got := droppedAt(t, k, "wan") - before; (got == 3) != tt.listed || got != 0 && got != 3 {
				t.Errorf("%s in %s: %d of 3 dropped", tt.source, wire, got)
			}
		}
	}
	if listed := run(t, "nft list table netdev fastpath"); !strings.Contains(listed, "198.51.100.0/24, 203.0.113.7") {
		t.Error(listed)
	}
	apply(t, k, state.RemoveDrop{})
	if left := run(t, "nft list ruleset"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// TestDropBesideChecks: neither takes the other's table away.
func TestDropBesideChecks(t *testing.T) {
	inNamespace(t)
	veth(t, "lan", "wan")
	k := newKernel(t)
	d := testDrop("lan", "wan")
	apply(t, k, state.AddCheck{Device: "lan"})
	apply(t, k, state.SetDrop{Drop: d})
	apply(t, k, state.RemoveCheck{Device: "lan"})
	if got := observe(t, k); !got.Drop.Is(&d) || len(got.Checks) != 0 {
		t.Fatalf("%+v %v", got.Drop, got.Checks)
	}
	apply(t, k, state.AddCheck{Device: "wan"})
	apply(t, k, state.RemoveDrop{})
	if got := observe(t, k); !got.Drop.Is(nil) || !slices.Equal(got.Checks, []string{"wan"}) {
		t.Fatalf("%+v %v", got.Drop, got.Checks)
	}
	apply(t, k, state.SetDrop{Drop: d})
	must(t, k.Cleanup())
	if left := run(t, "nft list ruleset"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// stream sends frames in turn until it is stopped, which tells how often each was sent.
func stream(t *testing.T, device string, frames ...[]byte) (stop func() int) {
	t.Helper()
	l, err := netlink.LinkByName(device)
	must(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	end, sent := make(chan struct{}), make(chan int)
	go func() {
		defer unix.Close(fd)
		for n := 0; ; n++ {
			select {
			case <-end:
				sent <- n
				return
			default:
			}
			for _, frame := range frames {
				if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index}); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	return func() int { close(end); return <-sent }
}

// TestDropReload: while the list is exchanged no packet of a listed source passes,
// none of another is lost, and what was left half made is made again.
func TestDropReload(t *testing.T) {
	inNamespace(t)
	veth(t, "wan")
	run(t, "ip link set peer-wan up")
	k := newKernel(t)
	load(t, `table netdev seen {
		set bad { typeof ip saddr; elements = { 198.51.100.9 } }
		chain in {
			type filter hook ingress device "wan" priority 0;
			ip saddr 198.51.100.9 counter
			ip saddr 192.0.2.1 counter
		}
	}`)
	d := testDrop("wan")
	apply(t, k, state.SetDrop{Drop: d})
	bad, good := around(state.DropForm{}, netip.MustParseAddr("198.51.100.9")), around(state.DropForm{}, netip.MustParseAddr("192.0.2.1"))
	stop := stream(t, "peer-wan", bad, good)
	for i := range 20 {
		d.Sets[0].Name = fmt.Sprintf("v4-%d", i+2)
		d.Sets[0].V4 = append(prefixes4("192.0.2.2/32", "198.51.100.0/24"), prefixes4(fmt.Sprintf("203.0.113.%d/32", i))...)
		c, err := k.nfnetlink()
		must(t, err)
		if i == 10 { // as a daemon that was killed leaves it
			var b batch
			b.addDropSet(d.Sets[0])
			must(t, c.commit("half a set", &b))
		}
		c.close()
		apply(t, k, state.SetDrop{Drop: d})
	}
	n := stop()
	if got := observe(t, k).Drop; !got.Is(&d) {
		t.Errorf("%+v, want %+v", got, d.State())
	}
	listed := run(t, "nft list chain netdev seen in")
	if !strings.Contains(listed, "198.51.100.9 counter packets 0 ") || !strings.Contains(listed, fmt.Sprintf("192.0.2.1 counter packets %d ", n)) {
		t.Errorf("of %d packets each:\n%s", n, listed)
	}
	if got := droppedAt(t, k, "wan"); got == 0 || got > uint64(n) {
		t.Errorf("%d counted of %d", got, n)
	}
	t.Logf("%d packets of each source during 20 reloads", n)
}
