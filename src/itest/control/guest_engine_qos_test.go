// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"strings"
	"testing"

	"fastpath/src/itest/topo"
)

// TestEngineQoS: an engine passes every queue by, as plan's matrix says; so one
// gets a port with a shaper by force only.
func TestEngineQoS(t *testing.T) {
	r := buildQoS(t)
	r.tc(t, shaper("cake", "wan")...)
	r.configure(t, topo.Engine{Kind: "xdp"})
	r.start(t)
	r.eventually(t, "the engine is refused", func() bool {
		return strings.Contains(r.portOf(t, "wan").EngineReason, "cake on wan limits what it sends")
	})
	for _, e := range engines {
		r.configure(t, e)
		r.reload(t)
		r.on(t, e.Kind)
		r.cells(t, e.Kind)
	}
}
