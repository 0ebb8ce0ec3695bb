// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"io"
	"log/slog"
	"testing"

	"fastpath/src/state"
)

// BenchmarkFlows is what `fastpath flows` costs, without the kernel's and the
// engines' part: from the daemon's list over the socket to the text.
func BenchmarkFlows(b *testing.B) {
	for _, n := range []int{10_000, 65_536} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := &handler{flows: make([]state.Flow, n)}
			for i := range h.flows {
				f := filterFlow
				f.Engine, f.Counted, f.In, f.Out, f.Idle = state.EngineXDP, true, "lan1", "eth0", float64(i)
				f.Orig.Src = fmt.Sprintf("10.0.%d.%d", i>>8, i&255)
				h.flows[i] = f
			}
			dir := b.TempDir()
			s, err := Listen(dir, h, slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for b.Loop() {
				flows, err := AskFlowList(dir, []string{"engine", "xdp"})
				if err != nil || len(flows) != n {
					b.Fatalf("%d flows, %v", len(flows), err)
				}
				if err := WriteFlows(io.Discard, flows); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
