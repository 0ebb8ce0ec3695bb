// SPDX-License-Identifier: Apache-2.0

package flowsync

import (
	"slices"
	"testing"
	"time"

	peer "github.com/ti-mo/conntrack"

	"fastpath/src/packet"
)

// TestAssured: UDP is taken when it is answered, and counts as assured before
// the first entry exists.
func TestAssured(t *testing.T) {
	l := newLab(t)
	ct := l.conntrack()
	seen := 0
	l.sink.put = func(packet.Key) {
		flows, err := ct.DumpFilter(peer.NewFilter().Mark(bit).MarkMask(bit), nil)
		if err != nil || len(flows) != 1 || flows[0].Status&(statusSeenReply|statusAssured) != statusSeenReply|statusAssured {
			t.Errorf("connections with the bit: %v, %v", flows, err)
		}
		seen++
	}
	l.start(Options{verifyEvery: 200 * time.Millisecond, idleAfter: time.Hour})
	l.echo(l.net, "198.51.100.9:7000")
	l.dial(l.host, "udp", "198.51.100.9:7000") // a question and an answer
	l.carried(1)
	if seen != 2 {
		t.Errorf("put %d times", seen)
	}
	resyncs := l.sync.Stats().Resyncs
	eventually(t, "three more dumps", func() bool { return l.sync.Stats().Resyncs >= resyncs+3 })
	if got := l.only(ct).Timeout; got > 30 {
		t.Errorf("without more packets it stays for %d s", got)
	}
	eventually(t, "a stream's time", func() bool {
		l.sink.count(1)
		return l.only(ct).Timeout > 60
	})
	l.router.Run(t, "nft flush chain inet t forward") // the rule would set the bit again
	l.sync.Flush(match)
	l.carried(0)
	flows, err := ct.Dump(nil)
	if err != nil || !slices.ContainsFunc(flows, func(f peer.Flow) bool {
		return f.TupleOrig.Proto.Protocol == packet.UDP && f.Status&statusAssured != 0 && f.Mark == 0
	}) {
		t.Errorf("after it left: %v, %v", flows, err)
	}
}
