// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"
	"time"
)

// A device that can't transmit what XDP redirects to it any more (a veth whose
// peer has no NAPI, a network card without rings) drops all of it, and no event of
// rtnetlink tells. The engine looks each second, so the gap may be longer than
// limit, but no flow stays in the hole.
func TestTransmitLost(t *testing.T) {
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, engine)
			l.run()
			begin := time.Now()
			l.a.ns.Run(t, "ethtool -K a0 gro off")
			time.Sleep(after)
			eventually(t, "the server's packets arrive again", func() bool {
				n := l.down.received()
				time.Sleep(200 * time.Millisecond)
				return l.down.received()-n > 50
			})
			t.Logf("gap up %v, down %v", ms(l.up.gap(begin)), ms(l.down.gap(begin)))
			l.finish()
		})
	}
}
