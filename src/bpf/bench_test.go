// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"

	"fastpath/src/packet"
	"fastpath/src/testkit"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// benchRuns is how often the kernel runs the program on a frame at a time: each
// takes one off the TTL.
const benchRuns = 250

// BenchmarkProgram runs the program on 64-byte frames in the kernel: what it
// costs without driver and devmap flush. Each packet leaves as the next flow's,
// from the first wire to the second one or back, so that all flows are walked
// through and headers are pushed as often as popped. The kernel waits for RCU at
// each of its calls: -benchtime 100x is plenty.
func BenchmarkProgram(b *testing.B) {
	plain := packet.Wire{Own: benchMAC, Peer: benchMAC}
	vlan, pppoe, dslite := plain, plain, plain
	vlan.VLANs = []packet.VLAN{{Type: packet.TypeVLAN, ID: 35}}
	pppoe.VLANs, pppoe.Session = vlan.VLANs, 0x1234
	dslite.Local, dslite.Remote, dslite.Tunnel = tunnels[0].local, tunnels[0].remote, tunnels[0].id
	for _, bm := range []struct {
		name  string
		wire  packet.Wire
		flows int
		v6    bool
	}{
		{"plain-1", plain, 2, false},
		{"plain-1k", plain, 1000, false},
		{"plain-64k", plain, 64000, false},
		{"v6-1k", plain, 1000, true},
		{"vlan-pppoe-1k", pppoe, 1000, false},
		{"dslite-1k", dslite, 1000, false},
	} {
		b.Run(bm.name, func(b *testing.B) {
			s, frame := benchSet(b, [2]packet.Wire{plain, bm.wire}, bm.flows, bm.v6)
			prog := s.program.handle(b)
			defer prog.Close()
			total := 0.0
			for i := 0; b.Loop(); i++ {
				s.Tick()
				_, d, err := prog.Benchmark(frame(uint32(i*4001%bm.flows&^1)), benchRuns, nil)
				mustB(b, err)
				total += float64(d.Nanoseconds())
			}
			n, err := s.Counters(0)
			mustB(b, err)
			if n[packet.Forward] < uint64(benchRuns*b.N) {
				b.Fatalf("of %d packets: %v", benchRuns*b.N, n)
			}
			b.ReportMetric(total/float64(b.N), "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("devmap", benchDevmap)
}

var benchMAC = [6]byte{2, 0xaa, 0, 0, 0, 0}

func mustB(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// benchSet is a Set with n flows in a circle, and what makes the frame of one of them.
func benchSet(b *testing.B, wires [2]packet.Wire, n int, v6 bool) (*Set, func(uint32) []byte) {
	testkit.Need(b, os.Getuid() == 0, "BPF needs root")
	s, err := Load(Options{MaxFlows: uint32(n)})
	mustB(b, err)
	b.Cleanup(func() { s.Close() })
	mustB(b, s.PutDevice(0, loopback))
	in := packet.Port{MACs: [2][6]byte{benchMAC, benchMAC}}
	mustB(b, s.PutPort(loopback, &in))
	// What leaves comes in again, so its ends change places.
	mustB(b, s.PutTunnel(tunnels[0].id, tunnels[0].remote.As16(), tunnels[0].local.As16()))
	for i := range uint32(n) {
		key, err := packet.NewKey(wires[i%2], benchTuple(i, v6))
		mustB(b, err)
		action, err := packet.NewAction(key, wires[(i+1)%2], benchTuple((i+1)%uint32(n), v6), 1400)
		mustB(b, err)
		mustB(b, s.PutFlow(&key, Flow{Engine: EngineXDP, Action: &action}))
	}
	g := generator{rand.New(rand.NewPCG(1, 2))}
	return s, func(i uint32) []byte {
		ip := g.packet(benchTuple(i, v6), 18)
		if v6 {
			ip[7] = 255
		} else {
			binary.BigEndian.PutUint16(ip[4:], 0) // no fragment
			ip[8] = 255
		}
		return wrap(wires[i%2], benchMAC, benchMAC, ip)
	}
}

func benchTuple(i uint32, v6 bool) packet.Tuple {
	// Spread, so that the walk isn't one through memory.
	src := binary.BigEndian.AppendUint32(nil, i*2654435761)
	dst := []byte{198, 51, 100, 7}
	if v6 {
		src, dst = append(make([]byte, 12), src...), append(make([]byte, 12), dst...)
		src[0], dst[0] = 0x20, 0x20
	}
	s, _ := netip.AddrFromSlice(src)
	d, _ := netip.AddrFromSlice(dst)
	return packet.Tuple{Proto: packet.UDP, Src: netip.AddrPortFrom(s, uint16(i)), Dst: netip.AddrPortFrom(d, 53)}
}

// BenchmarkDropList is what a packet without a flow costs before it goes up, by the
// length of the drop list. Packets of one source follow each other.
func BenchmarkDropList(b *testing.B) {
	plain := packet.Wire{Own: benchMAC, Peer: benchMAC}
	for _, v6 := range []bool{false, true} {
		for _, n := range []int{0, 10, 100_000} {
			b.Run(fmt.Sprintf("IPv%d-%d", map[bool]int{false: 4, true: 6}[v6], n), func(b *testing.B) {
				s, frame := benchSet(b, [2]packet.Wire{plain, plain}, 2, v6)
				mustB(b, s.SetDrop(benchRanges(n)))
				prog := s.program.handle(b)
				defer prog.Close()
				total := 0.0
				for i := 0; b.Loop(); i++ {
					_, d, err := prog.Benchmark(frame(uint32(2*i+2)), benchRuns, nil)
					mustB(b, err)
					total += float64(d.Nanoseconds())
				}
				c, err := s.Counters(0)
				mustB(b, err)
				if c[packet.NoFlow] < uint64(benchRuns*b.N) {
					b.Fatalf("of %d packets: %v", benchRuns*b.N, c)
				}
				b.ReportMetric(total/float64(b.N), "ns/packet")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// benchRanges are n single addresses of each family, spread as the flows' sources are.
func benchRanges(n int) (v4 [][2][4]byte, v6 [][2][16]byte) {
	for i := range n {
		four := [4]byte(binary.BigEndian.AppendUint32(nil, uint32(uint64(i)<<32/uint64(n))|1))
		six := [16]byte{0x20}
		copy(six[12:], four[:])
		v4, v6 = append(v4, [2][4]byte{four, four}), append(v6, [2][16]byte{six, six})
	}
	return v4, v6
}

// benchDevmap is the least that forwards: new MACs, and off by the devmap.
func benchDevmap(b *testing.B) {
	testkit.Need(b, os.Getuid() == 0, "BPF needs root")
	devices, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	mustB(b, err)
	defer devices.Close()
	mustB(b, devices.Put(uint32(0), uint32(loopback)))
	ins := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, 14),
		asm.JGT.Reg(asm.R4, asm.R3, "pass"),
	}
	for at := range int16(6) {
		ins = append(ins, asm.LoadImm(asm.R0, int64(at), asm.DWord), asm.StoreMem(asm.R2, 2*at, asm.R0, asm.Half))
	}
	ins = append(ins,
		asm.LoadMapPtr(asm.R1, devices.FD()), asm.LoadImm(asm.R2, 0, asm.DWord), asm.LoadImm(asm.R3, 0, asm.DWord),
		asm.FnRedirectMap.Call(), asm.Return(),
		asm.LoadImm(asm.R0, xdpPass, asm.DWord).WithSymbol("pass"), asm.Return())
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: ins})
	mustB(b, err)
	defer prog.Close()
	total := 0.0
	for b.Loop() {
		verdict, d, err := prog.Benchmark(make([]byte, 64), benchRuns, nil)
		mustB(b, err)
		if verdict != xdpRedirect {
			b.Fatal(fmt.Sprint("verdict ", verdict))
		}
		total += float64(d.Nanoseconds())
	}
	b.ReportMetric(total/float64(b.N), "ns/packet")
	b.ReportMetric(0, "ns/op")
}
