// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOutdated: while the world is known to have changed, flows leave the Sink
// and none comes in; all is judged again afterwards.
func TestOutdated(t *testing.T) {
	f := newFixture()
	udp(f)
	s, sink := offline(t, f)
	s.again.world = true
	fl := s.meet(t, f)
	if len(sink.ops) != 0 || fl.carried || len(s.urgent) != 1 || s.working() {
		t.Errorf("a new flow: %v, carried %v, %d urgent, working %v", sink.ops, fl.carried, len(s.urgent), s.working())
	}
	s.again.world = false
	for s.working() {
		s.work()
	}
	if !fl.carried || !slices.Equal(sink.ops, []string{"put", "put"}) {
		t.Fatalf("after the look: %v, carried %v", sink.ops, fl.carried)
	}
	s.again.routes = true
	sink.ops = nil
	s.meet(t, f)
	if !fl.carried || len(sink.ops) != 0 {
		t.Errorf("a flow that is as it was: %v, carried %v", sink.ops, fl.carried)
	}
	f.w.neighbours[neighbourKey{brLAN, host4}] = neighbour{otherMAC, 0x02}
	f.w.fdb[fdbKey{brLAN, 0, otherMAC}] = lan1
	s.use(f)
	s.meet(t, f)
	if fl.carried || !slices.Equal(sink.ops, []string{"delete", "delete"}) {
		t.Errorf("another MAC: %v, carried %v", sink.ops, fl.carried)
	}
}

// TestNeighbourMeanwhile: a neighbour that changes takes its flows out at once
// while the world is outdated, and a path by what it was is never put.
func TestNeighbourMeanwhile(t *testing.T) {
	f := newFixture()
	udp(f)
	s, sink := offline(t, f)
	fl := s.meet(t, f)
	moved := writer{b: make([]byte, ndmsgLen)}
	moved.b[0] = unix.AF_INET
	binary.NativeEndian.PutUint32(moved.b[4:], brLAN)
	binary.NativeEndian.PutUint16(moved.b[8:], unix.NUD_REACHABLE)
	moved.attr(unix.NDA_DST, host4.AsSlice()...)
	moved.attr(unix.NDA_LLADDR, otherMAC[:]...)
	s.again.world = true
	s.take(report{neighbours: []change{{body: moved.b}}})
	if fl.carried || sink.size() != 0 {
		t.Error("it stays with the old MAC")
	}
	s.again.world = false
	f.w.fdb[fdbKey{brLAN, 0, otherMAC}] = lan1
	sink.ops = nil
	for _, e := range s.r.ends {
		e.stale = true // as by an event between the look-up and the Sink
	}
	s.judge([]*flow{fl})
	if len(sink.ops) != 0 || len(s.urgent) != 1 {
		t.Errorf("put by a neighbour of the past: %v, %d urgent", sink.ops, len(s.urgent))
	}
}

// TestNoteChange: what makes every flow to be resolved again.
func TestNoteChange(t *testing.T) {
	up, down := linkMessage(3, unix.IFF_UP, func(*writer) {}), linkMessage(3, 0, func(*writer) {})
	for _, c := range []struct {
		what          string
		typ           uint16
		body          []byte
		world, routes bool
	}{
		{"a route", unix.RTM_NEWROUTE, nil, false, true},
		{"a next hop", unix.RTM_DELNEXTHOP, nil, false, true},
		{"a rule", unix.RTM_NEWRULE, nil, false, true},
		{"a rule is gone", unix.RTM_DELRULE, nil, false, true},
		{"an address", unix.RTM_NEWADDR, nil, false, true},
		{"an address is gone", unix.RTM_DELADDR, nil, false, true},
		{"a link", unix.RTM_NEWLINK, up, true, false},
		{"a link goes down", unix.RTM_NEWLINK, down, true, true},
		{"a link is gone", unix.RTM_DELLINK, up, false, true},
		{"a bridge's VLAN", unix.RTM_NEWVLAN, nil, true, false},
	} {
		var rep report
		noteChange(&rep, c.typ, c.body)
		if rep.world != c.world || rep.routes != c.routes {
			t.Errorf("%s: world %v, routes %v", c.what, rep.world, rep.routes)
		}
	}
}
