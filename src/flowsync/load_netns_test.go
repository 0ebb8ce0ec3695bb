// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/packet"
)

const (
	loadHosts  = 1000
	loadServer = 0x0a800000 // 10.128.0.0
)

// loadTuple is the i-th of many connections: a thousand hosts, each with
// servers of its own.
func loadTuple(i int, proto uint8) (orig, reply packet.Tuple) {
	host := netip.AddrFrom4([4]byte{10, 1, byte(i % loadHosts >> 8), byte(i % loadHosts)})
	server := netip.AddrPortFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(loadServer+i)))), 443)
	orig = packet.Tuple{Proto: proto, Src: netip.AddrPortFrom(host, 40000), Dst: server}
	reply = turned(orig)
	reply.Dst = netip.AddrPortFrom(wan4, uint16(1024+i%60000))
	return orig, reply
}

// neighbours gives the router a thousand of them.
func (l *lab) neighbours() {
	l.router.Run(l.t, `ip addr add 10.1.255.254/16 dev br-lan
		i=0; while [ $i -lt 1000 ]; do
			printf 'neigh replace 10.1.%d.%d lladdr 02:00:00:01:%02x:%02x nud permanent dev br-lan\n' $((i/256)) $((i%256)) $((i/256)) $((i%256))
			i=$((i+1))
		done | ip -batch -
		i=0; while [ $i -lt 1000 ]; do
			printf 'fdb replace 02:00:00:01:%02x:%02x dev lan1 master dynamic\n' $((i/256)) $((i%256))
			i=$((i+1))
		done | bridge -batch -`)
	l.poke("203.0.113.1")
}

// insert makes the connections first to first+n-1.
func (l *lab) insert(first, n int, proto uint8, mark uint32) {
	l.t.Helper()
	ct := l.orders()
	defer ct.close()
	err := ct.batch(n, func(w *writer, i int, seq uint32) {
		orig, reply := loadTuple(first+i, proto)
		openTuple(w, ctNew, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, seq, &orig)
		w.nest(ctaTupleReply, func() { writeTuple(w, &reply) })
		w.be32(ctaStatus, statusConfirmed|statusAssured|statusSeenReply)
		w.be32(ctaTimeout, 3600)
		w.be32(ctaMark, mark)
		if proto == packet.TCP {
			w.nest(ctaProtoInfo, func() { w.nest(ctaProtoInfoTCP, func() { w.attr(ctaTCPState, tcpEstablished) }) })
		}
		w.close()
	}, func(i int, _ []byte, err error) {
		if err != nil {
			l.t.Fatalf("connection %d: %v", first+i, err)
		}
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// setMark does what the rule does, to n connections from first on.
func (l *lab) setMark(ct conntrack, first, n int, proto uint8) {
	l.t.Helper()
	tuples := make([]packet.Tuple, n)
	for i := range tuples {
		tuples[i], _ = loadTuple(first+i, proto)
	}
	err := ct.update(n, func(i int) *packet.Tuple { return &tuples[i] },
		func(w *writer, _ int) { w.be32(ctaMark, bit); w.be32(ctaMarkMask, bit) },
		func(i int, err error) { l.t.Errorf("connection %d: %v", i, err) })
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) orders() (ct conntrack) {
	l.t.Helper()
	l.router.Do(l.t, func() {
		var err error
		if ct, err = dialConntrack(); err != nil {
			l.t.Fatal(err)
		}
	})
	return ct
}

// TestFull measures a full table: how long the first synchronisation takes, one
// verification, and a new flow from the mark to the Sink.
func TestFull(t *testing.T) {
	l := newLab(t)
	l.neighbours()
	const flows, fresh = 1 << 16, 200
	l.insert(0, flows, packet.TCP, bit)
	l.start(Options{verifyEvery: time.Hour})
	begin := time.Now()
	eventually(t, "all flows", func() bool { return l.sink.size() == 2*flows })
	t.Logf("full synchronisation of %d flows: %v", flows, time.Since(begin))

	l.insert(flows, fresh, packet.TCP, 0)
	var mu sync.Mutex
	var put time.Time
	l.sink.mu.Lock()
	l.sink.put = func(packet.Key) { mu.Lock(); put = time.Now(); mu.Unlock() }
	l.sink.mu.Unlock()
	eventually(t, "quiet", func() bool { return l.sync.Stats().Flows == flows })
	ct := l.orders()
	defer ct.close()
	var took []time.Duration
	for i := range fresh {
		marked := time.Now()
		l.setMark(ct, flows+i, 1, packet.TCP)
		eventually(t, "the new flow", func() bool { return l.sink.size() == 2*(flows+i+1) })
		mu.Lock()
		took = append(took, put.Sub(marked))
		mu.Unlock()
	}
	slices.Sort(took)
	t.Logf("new flow, from the mark to the second entry: median %v, 95 %% %v", took[fresh/2], took[fresh*95/100])
	l.sink.mu.Lock()
	l.sink.put = nil
	l.sink.mu.Unlock()

	begin = time.Now()
	l.router.Run(t, "ip route add 192.0.2.0/24 via 203.0.113.1")
	eventually(t, "everything is judged again", func() bool { return l.idle() })
	t.Logf("all flows resolved again after a route change: %v", time.Since(begin))
	begin = time.Now()
	l.router.Run(t, "ip link set eth0 mtu 1400")
	eventually(t, "everything is judged again", func() bool { return l.sink.mtus(1400) == flows+fresh && l.idle() })
	t.Logf("all flows exchanged after a change of the MTU: %v", time.Since(begin))
	t.Logf("%d overruns", l.sync.Stats().Overruns)
}

// idle: nothing waits to be read or judged.
func (l *lab) idle() (idle bool) {
	l.sync.do(func() { idle = !l.sync.working() && l.sync.due.IsZero() })
	return idle
}

// TestOverrun: events that the kernel drops, in both directions, lose nothing.
func TestOverrun(t *testing.T) {
	l := newLab(t)
	l.neighbours()
	const flows = 20000
	l.start(Options{verifyEvery: time.Hour, conntrackBuffer: 4096, rtnetlinkBuffer: 4096})
	l.insert(0, flows, packet.TCP, 0)
	ct := l.orders()
	defer ct.close()
	l.setMark(ct, 0, flows, packet.TCP)
	l.carried(flows)
	if l.sync.Stats().Overruns == 0 {
		t.Error("no overrun was provoked")
	}
	l.router.Run(t, "ip -batch - <<END\n"+manyRoutes()+"END")
	l.router.Run(t, "conntrack -F 2>/dev/null")
	l.carried(0)
}

// manyRoutes are more changes than the small buffer holds; the last one counts.
func manyRoutes() string {
	s := ""
	for range 500 {
		s += "route replace default via 203.0.113.1\n"
	}
	return s + "route replace default via 203.0.113.1 mtu 1444\n"
}

// TestSilent: connections that were made while nobody listened end without an
// event; the next verification notices.
func TestSilent(t *testing.T) {
	l := newLab(t)
	l.neighbours()
	l.insert(0, 100, packet.TCP, bit)
	l.start(Options{verifyEvery: time.Second})
	l.carried(100)
	l.router.Run(t, "conntrack -F 2>/dev/null")
	l.carried(0)
}

// TestCrowded: a Sink without room has no half connections; the others come in
// when there is room.
func TestCrowded(t *testing.T) {
	for _, c := range []struct {
		what string
		sink int
		o    Options
		want int
	}{
		{"the Sink is full, in the middle of a connection", 21, Options{}, 10},
		{"MaxFlows", 0, Options{MaxFlows: 10}, 10},
	} {
		l := newLab(t)
		l.neighbours()
		l.sink.limit = c.sink
		c.o.verifyEvery = time.Hour
		l.start(c.o)
		l.insert(0, 30, packet.UDP, 0) // a connection that nobody listened to has no events
		ct := l.orders()
		l.setMark(ct, 0, 30, packet.UDP)
		ct.close()
		l.carried(c.want)
		eventually(t, "20 are told of", func() bool {
			st := l.sync.Stats()
			return st.Waiting[crowdedReason] == 20 && st.Full == 20
		})
		l.router.Run(t, "conntrack -D -p udp -s 10.1.0.0/24 -d 10.128.0.0/29 >/dev/null 2>&1 || true")
		l.carried(c.want)
		if n := l.sync.Stats().Full; n != 20 {
			t.Errorf("%s: Full is %d", c.what, n)
		}
		l.router.Run(t, "conntrack -F 2>/dev/null")
		l.carried(0)
	}
}
