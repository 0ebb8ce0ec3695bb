// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"fastpath/src/packet"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A frame without headroom, as told by metadata that is there already. What goes
// up is the frame, at most its padding is gone.
func TestNoRoom(t *testing.T) {
	r, frame := growing(t, EngineXDP)
	const meta = 208 // behind struct xdp_frame, in the 256 bytes of headroom
	verdict, after, err := runWithMeta(t, r.set, frame, meta)
	if errors.Is(err, unix.EINVAL) {
		t.Log("this kernel takes at most 32 bytes of metadata: they leave headroom enough")
		return
	}
	must(t, err)
	n, err := r.set.Counters(0)
	must(t, err)
	if verdict != xdpPass || n[packet.NoRoom] != 1 || !bytes.HasPrefix(after[meta:], frame) {
		t.Errorf("verdict %d, counters %v", verdict, n)
	}
}

// Metadata that is there already (of a driver, or of the program of a veth's
// other end) makes way: a worker finds ours right in front of the frame.
func TestMetadataOfOthers(t *testing.T) {
	for _, others := range []int{4, 16, 20, 32} {
		r, frame := growing(t, EngineAFXDP)
		verdict, after, err := runWithMeta(t, r.set, frame, others)
		must(t, err)
		var p packet.Parsed
		packet.Parse(frame, &r.in, parseTunnels(), &p)
		want := packet.Meta{Ref: r.flows[0].ref, Layout: p.Layout}
		if got := packet.LoadMeta(after); verdict != xdpRedirect || got != want || !bytes.HasPrefix(after[packet.MetaLen:], frame) {
			t.Errorf("behind %d bytes: verdict %d, metadata %+v, want %+v", others, verdict, got, want)
		}
	}
}

// growing is a rig with one flow whose frames get all headers there are, and a
// frame of it without padding.
func growing(t *testing.T, e Engine) (*rig, []byte) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	f := g.flow()
	f.in, f.mtu, f.engine = packet.Wire{}, 1500, e
	f.out = packet.Wire{VLANs: []packet.VLAN{{Type: packet.TypeQinQ, ID: 1}, {Type: packet.TypeVLAN, ID: 2}}, Session: 1}
	r := newRig(t, []*testFlow{f}, true)
	r.enter(0)
	return r, wrap(f.in, r.in.MACs[0], f.in.Peer, g.packet(f.from, 100))
}

// runWithMeta runs the program on a padded frame with meta bytes of metadata.
func runWithMeta(t *testing.T, s *Set, frame []byte, meta int) (verdict uint32, after []byte, err error) {
	s.Tick()
	data := slices.Concat(make([]byte, meta), frame, make([]byte, 9))
	o := ebpf.RunOptions{
		Data: data, DataOut: make([]byte, 4096),
		Context: xdpMd{Data: uint32(meta), DataEnd: uint32(len(data))}, ContextOut: &xdpMd{},
	}
	prog := s.program.handle(t)
	defer prog.Close()
	verdict, err = prog.Run(&o)
	return verdict, o.DataOut, err
}
