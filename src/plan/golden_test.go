// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"flag"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fastpath/src/config"
	"fastpath/src/state"
)

var update = flag.Bool("update", false, "write the answers of the golden cases anew")

// fewestCases: losing testdata must not look like success.
const fewestCases = 30

func casePaths(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < fewestCases {
		t.Fatalf("%d cases in testdata, %v", len(paths), err)
	}
	return paths
}

func TestGolden(t *testing.T) {
	for _, path := range casePaths(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { golden(t, path) })
	}
}

// golden goes through a case's stages. After each the router has done all
// steps, and a second plan has none.
func golden(t *testing.T, path string) {
	sections := readCase(t, path)
	s := newStage(t)
	out := []section{sections[0]}
	checked := 0
	for i := 1; i < len(sections); {
		for ; i < len(sections) && s.input(t, sections[i]); i++ {
			out = append(out, sections[i])
		}
		c := s.config(t)
		want, report := Desired(c, s.r.o)
		steps := Diff(want, s.r.o)
		answers := s.answers(want, report, steps)
		for _, name := range []string{"steps", "ruleset", "report"} {
			out = append(out, section{name, answers[name]})
			if i < len(sections) && sections[i].name == name {
				if !*update && sections[i].text != answers[name] {
					t.Errorf("%s, section %d:\n%s\nwanted:\n%s", name, i, answers[name], sections[i].text)
				}
				checked++
				i++
			} else if !*update {
				t.Fatalf("section %q is missing before section %d; run with -update", name, i)
			}
		}
		converge(t, c, s.r, steps)
	}
	if *update {
		writeCase(t, path, out)
	} else if checked < 3 {
		t.Errorf("only %d answers", checked)
	}
}

// converge does the steps and demands that a second plan is the same and has none.
func converge(t *testing.T, c config.Config, r *router, steps []state.Step) {
	t.Helper()
	want, _ := Desired(c, r.o)
	for i, step := range steps {
		if err := r.apply(step); err != nil {
			t.Fatalf("step %d of %d, %s: %v", i+1, len(steps), step, err)
		}
	}
	again, _ := Desired(c, r.o)
	if !reflect.DeepEqual(want, again) {
		t.Fatalf("the plan changed its mind by being carried out:\n%+v\n%+v", want, again)
	}
	if more := Diff(again, r.o); len(more) > 0 {
		t.Fatalf("second plan isn't empty:\n%s", printSteps(more))
	}
	invariants(t, r)
	listsHold(t, c, r)
	for port := range r.o.Saved {
		if _, wanted := again.Features[port]; !wanted && r.link(port) != nil {
			t.Fatalf("offloads of %s are still saved though nothing is wanted of it", port)
		}
	}
}

// offloadsAreKnown holds at any moment: a port whose offloads aren't its own has
// them in saved.json, and what is there is right.
func offloadsAreKnown(t *testing.T, r *router) {
	t.Helper()
	for i := range r.o.Links {
		l := &r.o.Links[i]
		saved, ok := r.o.Saved[l.Name]
		original := r.original[l.Name]
		if now := l.Feature.Offloads(); !ok && now != original {
			t.Fatalf("%s was %v, is %v, and nothing is saved", l.Name, original, now)
		}
		if ok && saved != original {
			t.Fatalf("%s was %v, but %v is saved", l.Name, original, saved)
		}
	}
}

// invariants hold whenever a plan has been carried out.
func invariants(t *testing.T, r *router) {
	t.Helper()
	offloadsAreKnown(t, r)
	limitsHold(t, r)
	tunnelsHold(t, r)
	engines := map[string]bool{}
	for _, e := range r.o.Engines {
		engines[e.Kind] = true
	}
	if r.o.Table == nil && len(engines) > 0 || r.o.Table != nil && len(r.o.Table.Engines) != len(engines) {
		t.Fatalf("engines %v run, table %+v", r.o.Engines, r.o.Table)
	}
	if r.o.Table == nil {
		return
	}
	for kind, devices := range r.o.Table.Engines {
		for _, device := range devices {
			if l := r.link(device); l != nil && !r.engineBelow(l, kind) {
				t.Fatalf("%s is in set %s, but not every port below it has the engine: %v", device, kind, r.o.Engines)
			} else if l != nil && l.Master != 0 {
				t.Fatalf("%s is in set %s, but packets bear the name of its master", device, kind)
			}
		}
	}
	for port, e := range r.o.Engines {
		if early := len(r.o.Checks) > 0 || r.o.Table.Flowtable.Number != state.NumberIngress; early && e.Generic {
			t.Fatalf("%s is in generic mode at early_ingress", port)
		}
	}
	for _, device := range r.o.Table.Flowtable.Devices {
		if r.link(device) == nil {
			t.Fatalf("the flowtable lists %s, which doesn't exist", device)
		}
	}
	if !slices.IsSorted(r.o.Table.Flowtable.Devices) {
		t.Fatalf("devices aren't sorted: %v", r.o.Table.Flowtable.Devices)
	}
}
