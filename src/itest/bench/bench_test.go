// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"fastpath/src/itest/engine"
	"fastpath/src/testkit"
)

// TestMain lets the test binary be the forwarding process, as the program is.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := engine.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func need(t *testing.T) {
	t.Helper()
	testkit.NeedNetns(t)
	testkit.Need(t, runtime.NumCPU() > 1, "the benchmark needs two CPUs")
}

func testBed(t *testing.T, v variant, number int, tl tools) *bed {
	t.Helper()
	b, err := newBed(v, number, manyFlows, tl)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Every cell gives a figure that can be one; every variant forwards all flows,
// with every byte right; and what isn't as it should be is an error, not a figure.
func TestEveryCell(t *testing.T) {
	need(t)
	tl, err := compile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range variants {
		t.Run(v.String(), func(t *testing.T) {
			b := testBed(t, v, i, tl)
			for _, s := range scenes {
				x, err := b.try(t.Context(), s, 30*time.Millisecond)
				if err != nil {
					t.Fatalf("%s: %v", s, err)
				}
				// From above, because a busy machine may slow all down.
				if x.CPU < 10 || x.PPS <= 0 || s.pps > 0 && x.PPS > 1.2*float64(s.pps) {
					t.Errorf("%s: %.0f ns for each of %.0f packets/s", s, x.CPU, x.PPS)
				}
			}
			for _, s := range []scene{crowded, {size: 1500, flows: 1000}} {
				checkFrames(t, b, s)
			}
			checkStreams(t, b)
			exchangeSink(t, b)
			if _, err := b.measure(t.Context(), ordinary, 10*time.Millisecond); !errors.Is(err, errNothing) {
				t.Errorf("packets with another address than the sink wants: %v", err)
			}
		})
	}
}

// checkStreams receives each of the bed's TCP streams for a moment.
func checkStreams(t *testing.T, b *bed) {
	t.Helper()
	for _, st := range streams {
		if st.bed != b.variant {
			continue
		}
		if x, err := st.receive(b, 50*time.Millisecond); err != nil || x.Rate < 1e3 || x.CPU <= 0 {
			t.Errorf("%s %s: %+v, %v", st.group, st.name, x, err)
		}
		out, err := b.router.Sh("nft list tables; ip -d link show dev " + b.r0)
		if err != nil || strings.Contains(out, "validation") || !strings.Contains(out, "gro_max_size 65536") {
			t.Errorf("after %s %s: %v %s", st.group, st.name, err, out)
		}
	}
}

// exchangeSink exchanges the bed's sink for one that wants another source address.
func exchangeSink(t *testing.T, b *bed) {
	t.Helper()
	s, err := newSink([4]byte{203, 0, 113, 9}, [4]byte{255, 255, 255, 255}, 26)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.sink.link.Update(s.prog); err != nil {
		t.Fatal(err)
	}
	s.link, b.sink.link = b.sink.link, nil
	if err := b.sink.close(); err != nil {
		t.Error(err)
	}
	b.sink = s
}

// What can't be made is taken down again, and so is all when the user has enough.
func TestCleanUp(t *testing.T) {
	need(t)
	if _, err := newBed(l2fwd, 0, 1, tools{l2fwd: "false"}); err == nil {
		t.Error("a bed without a forwarder")
	}
	if _, err := newBed(devmap, 1, 1, tools{devmap: []byte("no object")}); err == nil {
		t.Error("a bed without a program")
	}
	noNamespaces(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	time.AfterFunc(time.Second, func() { cancel(enough) })
	if _, err := measure(ctx, 1); err == nil || err.Error() != "interrupted" {
		t.Errorf("interrupted: %v", err)
	}
	noNamespaces(t)
}

func noNamespaces(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(fmt.Sprintf("/run/netns/fp-%d-*", os.Getpid()))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestStride(t *testing.T) {
	for _, n := range []int{1, 2, 10, 1000, manyFlows} {
		seen := make([]bool, n)
		at := 0
		for range n {
			seen[at] = true
			if at += stride(n); at >= n {
				at -= n
			}
			if at >= n {
				t.Fatalf("%d flows: stride %d", n, stride(n))
			}
		}
		for i, ok := range seen {
			if !ok {
				t.Fatalf("%d flows: flow %d never comes", n, i)
			}
		}
	}
}

func TestRoundsWanted(t *testing.T) {
	for s, want := range map[string]int{"": 30, "5": 5, "0": 0, "-1": 0, "many": 0} {
		if n, err := roundsWanted(s); n != want || (err == nil) != (want > 0) {
			t.Errorf("ROUNDS=%s: %d, %v", s, n, err)
		}
	}
}

// Everything a target needs is measured in every round; the rest less often, but
// together with its reference.
func TestDue(t *testing.T) {
	for _, rounds := range []int{1, 4, 30} {
		for _, s := range scenes {
			count := map[variant]int{}
			for round := range roundsOf(s, rounds) {
				for _, v := range variants {
					if !due(v, s, round, rounds) {
						continue
					}
					count[v]++
					if !due(kernelNAT, s, round, rounds) {
						t.Errorf("%s, round %d: %s without its reference", s, round, v)
					}
				}
			}
			for _, v := range variants {
				want := others(rounds)
				if judged(s, v) {
					want = rounds
				}
				if count[v] != want {
					t.Errorf("%s, %s: %d rounds of %d, want %d", s, v, count[v], rounds, want)
				}
			}
		}
	}
}
