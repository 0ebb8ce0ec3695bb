// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/packet"
	"fastpath/src/state"
)

// offline is a Sync without sockets: the fixture's world, its routes known.
func offline(t *testing.T, f *fixture) (*Sync, *fakeSink) {
	sink := newSink(t)
	s := &Sync{o: Options{Mark: bit, Sink: sink}, table: newTable(), log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	s.ct.socket = &socket{fd: -1} // an order would fail; UDP needs none
	s.use(f)
	return s, sink
}

// use gives it the fixture as it is now.
func (s *Sync) use(f *fixture) {
	tun := newTunnels()
	if s.r != nil {
		tun = s.r.tunnels
	}
	s.r = newResolver(bit, f.ports, f.w, tun)
}

// meet puts a connection of the fixture into the table and lets it be judged.
func (s *Sync) meet(t *testing.T, f *fixture) *flow {
	t.Helper()
	for _, ready := s.r.resolve(&f.c); !ready; _, ready = s.r.resolve(&f.c) {
		for q := range s.r.missing {
			s.r.known[q] = f.route(q)
		}
		clear(s.r.missing)
	}
	fl := s.note(&f.c)
	s.judge([]*flow{fl})
	return fl
}

func udp(f *fixture) {
	f.c.orig.Proto, f.c.reply.Proto, f.c.tcpState = packet.UDP, packet.UDP, 0
}

// TestOrder: an Action is exchanged in one call; when a key changes, the old
// entries of both directions go before the new ones come.
func TestOrder(t *testing.T) {
	f := newFixture()
	udp(f)
	f.addPPPoE("eth0")
	s, sink := offline(t, f)
	ops := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(sink.ops, want) {
			t.Errorf("%s: %v, want %v", what, sink.ops, want)
		}
		sink.ops = nil
	}
	s.meet(t, f)
	ops("new", "put", "put")
	s.use(f)
	s.meet(t, f)
	ops("nothing has changed")
	f.w.neighbours[neighbourKey{brLAN, host4}] = neighbour{otherMAC, 0x02}
	f.w.fdb[fdbKey{brLAN, 0, otherMAC}] = lan1
	s.use(f)
	s.meet(t, f)
	ops("another MAC", "put")
	f.w.sessions = []state.Session{{ID: 8, Peer: concMAC, Device: "eth0"}}
	s.use(f)
	fl := s.meet(t, f)
	ops("another PPPoE session", "delete", "delete", "put", "put")
	for _, k := range fl.path.key {
		if k.Session != ([2]byte{}) && k.Session != [2]byte{0, 8} {
			t.Errorf("session %v", k.Session)
		}
	}
	f.ports[eth0] = Port{Name: "eth0", Ifindex: eth0, Slot: 0, Engine: state.EngineAFXDP}
	f.ports[lan1] = Port{Name: "lan1", Ifindex: lan1, Slot: 1, Engine: state.EngineAFXDP}
	s.use(f)
	s.meet(t, f)
	ops("the same key by another engine", "delete", "delete", "put", "put")
	f.edit(eth0, func(l *link) { l.up = false })
	s.use(f)
	s.meet(t, f)
	ops("refused", "delete", "delete")
}

// TestMixture: two connections never share a key, whatever conntrack's events
// have told and in which order.
func TestMixture(t *testing.T) {
	f := newFixture()
	udp(f)
	s, sink := offline(t, f)
	old := s.meet(t, f)
	second := netip.MustParseAddr("192.168.1.21")
	f.c.orig.Src = netip.AddrPortFrom(second, 40000) // the same port of the WAN
	f.c.id = 8
	f.w.neighbours[neighbourKey{brLAN, second}] = neighbour{otherMAC, 0x02}
	f.w.fdb[fdbKey{brLAN, 0, otherMAC}] = lan1
	next := f.route
	f.route = func(q query) route {
		if q.dst == second {
			return route{dev: brLAN}
		}
		return next(q)
	}
	fresh := s.meet(t, f)
	if old.carried || !old.gone || !fresh.carried {
		t.Errorf("the old one: carried %v, gone %v; the new one: carried %v", old.carried, old.gone, fresh.carried)
	}
	have := sink.all()
	if len(have) != 2 || len(s.table.keys) != 2 || len(s.table.flows) != 1 {
		t.Errorf("%d entries, %d keys, %d flows", len(have), len(s.table.keys), len(s.table.flows))
	}
	for i, k := range fresh.path.key {
		if have[k].act != fresh.path.act[i] {
			t.Errorf("direction %d is not the new connection's", i)
		}
	}
}

// TestTwice: two events of one burst may be about one connection.
func TestTwice(t *testing.T) {
	f := newFixture()
	udp(f)
	s, sink := offline(t, f)
	fl := s.meet(t, f)
	s.remove(fl)
	sink.ops = nil
	s.judge([]*flow{fl, fl})
	if !slices.Equal(sink.ops, []string{"put", "put"}) || !fl.carried || fl.gone || s.table.carried != 1 || len(s.table.flows) != 1 {
		t.Errorf("%v; carried %v, gone %v, %d flows", sink.ops, fl.carried, fl.gone, len(s.table.flows))
	}
}

// TestEventOfAnother: an old connection's end, told late, leaves the new one
// alone, and a new connection's first word asks for all of it.
func TestEventOfAnother(t *testing.T) {
	f := newFixture()
	udp(f)
	s, sink := offline(t, f)
	s.meet(t, f)
	late := event{connection: f.c, gone: true}
	late.id = 6
	if s.takeEvent(&late) || sink.size() != 2 {
		t.Error("another's end was taken for this one's")
	}
	late.gone = false
	if !s.takeEvent(&late) || sink.size() != 2 {
		t.Error("another connection with these addresses must be read")
	}
	late.connection = f.c
	if s.takeEvent(&late) {
		t.Error("nothing new was told")
	}
	late.mark = 0
	if !s.takeEvent(&late) || sink.size() != 2 {
		t.Error("that the bit is gone may be told late: the entry must be read")
	}
	late.mark = bit | 0x100
	if !s.takeEvent(&late) {
		t.Error("another mark must be judged")
	}
	late.gone = true
	if s.takeEvent(&late); sink.size() != 0 || len(s.table.flows) != 0 {
		t.Error("the end")
	}
}

// TestRefused: a Sink that fails in the middle keeps nothing.
func TestRefused(t *testing.T) {
	for _, err := range []error{ErrFull, unix.EIO} {
		f := newFixture()
		udp(f)
		s, sink := offline(t, f)
		s.o.Sink = &failing{sink, err}
		fl := s.meet(t, f)
		if fl.carried || sink.size() != 0 || fl.reason == "" {
			t.Errorf("%v: carried %v, %d entries, reason %q", err, fl.carried, sink.size(), fl.reason)
		}
		if full := errors.Is(err, ErrFull); full != (s.stats.Full == 1) || full != fl.crowded {
			t.Errorf("%v: Full %d, crowded %v", err, s.stats.Full, fl.crowded)
		}
	}
}

// TestNoCounters: without counters no flow is thought to be idle.
func TestNoCounters(t *testing.T) {
	f := newFixture()
	udp(f)
	s, sink := offline(t, f)
	s.o.idleAfter = time.Second
	fl := s.meet(t, f)
	s.o.Sink = &failing{sink, unix.EIO}
	s.reader = &reader{rt: s.ct.socket}
	later := fl.active.Add(time.Minute)
	s.activity(later)
	if !fl.carried || !fl.active.Equal(later) {
		t.Errorf("carried %v, active %v", fl.carried, fl.active)
	}
	s.o.Sink = sink
	s.activity(later.Add(s.o.idleAfter))
	s.work()
	if fl.carried || sink.size() != 0 {
		t.Error("an idle flow stays")
	}
}

// failing takes one entry.
type failing struct {
	*fakeSink
	err error
}

func (s *failing) Put(in Port, k packet.Key, a packet.Action) error {
	if s.size() > 0 {
		return s.err
	}
	return s.fakeSink.Put(in, k, a)
}

func (s *failing) Counters(func(packet.Key, uint64, uint64)) error { return s.err }
