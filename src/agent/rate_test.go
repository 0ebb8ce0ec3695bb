// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// installs counts the tables that were installed.
func (r *rig) installs() (n int) {
	for _, s := range r.k.applied {
		if strings.HasPrefix(s, "install table") {
			n++
		}
	}
	return n
}

// reload is fw4's, which is an event.
func (r *rig) reloadFirewall(n int) {
	r.k.o.FW4.Present, r.k.o.FW4.Generation = true, fmt.Sprintf("g%d", n)
	poke(r.k.events)
}

// TestRelearnsAtOnceThenRarely: whoever changes the firewall's rules all the time
// gets the newest ones in force within a second, but doesn't keep all flows off
// the fast path.
func TestRelearnsAtOnceThenRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFake(), enabled)
		r.reloadFirewall(0)
		r.pass(2 * time.Second)
		before := r.installs()
		r.reloadFirewall(1)
		r.pass(settle + time.Millisecond)
		if n := r.installs() - before; n != 1 || r.k.o.Table.Generation != "g1" {
			t.Fatalf("%d tables at once after a quiet time, generation %q", n, r.k.o.Table.Generation)
		}
		const series = 10 * time.Second
		for i := range int(series / (50 * time.Millisecond)) {
			r.reloadFirewall(2 + i)
			changed := time.Now()
			r.pass(50 * time.Millisecond)
			if age := i - 20; age > 2 { // a second ago
				var inForce int
				fmt.Sscanf(r.k.o.Table.Generation, "g%d", &inForce)
				if inForce < age {
					t.Fatalf("%v: generation %d is in force, %d is a second old", changed, inForce, age)
				}
			}
		}
		if n, most := r.installs()-before, 2+int(series/relearnGap); n > most || n < most/2 {
			t.Errorf("%d tables in %v, want %d at most", n, series, most)
		}
		last := r.k.o.FW4.Generation
		r.pass(time.Second)
		if r.k.o.Table.Generation != last {
			t.Errorf("generation %q a second after the last change to %q", r.k.o.Table.Generation, last)
		}
		if d := r.status(); len(d.Look.Problems) > 0 {
			t.Errorf("problems: %q", d.Look.Problems)
		}
		n := len(r.k.applied)
		for range 20 { // events that change nothing
			poke(r.k.events)
			r.pass(300 * time.Millisecond)
		}
		if len(r.k.applied) != n {
			t.Errorf("steps without a cause: %q", r.k.applied[n:])
		}
		r.stop()
	})
}

// TestRateHoldsNothingElse: a port that comes while a generation waits joins at
// once, in place.
func TestRateHoldsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake()
		late := k.o.Links[1]
		k.o.Links = k.o.Links[:1]
		r := start(t, k, enabled)
		r.reloadFirewall(1)
		r.pass(2 * settle)
		r.reloadFirewall(2)
		k.o.Links = append(k.o.Links, late)
		r.pass(2 * settle)
		if !slices.Contains(k.o.Table.Flowtable.Devices, late.Name) || k.o.Table.Generation != "g1" {
			t.Errorf("devices %v of generation %s; steps %q", k.o.Table.Flowtable.Devices, k.o.Table.Generation, k.applied)
		}
		r.pass(relearnGap)
		if k.o.Table.Generation != "g2" {
			t.Errorf("generation %s", k.o.Table.Generation)
		}
		r.stop()
	})
}

// TestRateFollowsWhoReplacesAnyway: a table that has to be made anew takes the
// generation that waits along.
func TestRateFollowsWhoReplacesAnyway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFake(), enabled)
		r.reloadFirewall(1)
		r.pass(2 * settle)
		r.k.o.Table.Flowtable.Counter = !r.k.o.Table.Flowtable.Counter // somebody made it another one
		r.reloadFirewall(2)
		before := r.installs()
		r.pass(2 * settle)
		if n := r.installs() - before; n != 1 || r.k.o.Table.Generation != "g2" {
			t.Errorf("%d tables, generation %s", n, r.k.o.Table.Generation)
		}
		r.pass(2 * time.Second)
		if n := r.installs() - before; n != 1 {
			t.Errorf("%d tables later", n)
		}
		r.stop()
	})
}
