// SPDX-License-Identifier: Apache-2.0

// Bench is behind `make bench`: what a forwarded packet costs the router, for the
// kernel's forwarding, for the engines, and for forwarders in C that do the least
// possible; and how fast the router itself receives TCP. All over veth on the
// running kernel. It writes bench/results.json and bench/results.svg and prints
// a table; see usage.
//
// Cost is the CPU time of the router's threads (NAPI threads of its two ports,
// and the forwarder) per packet that the sink has seen. Router, and generator
// with sink, have a CPU each. The variants take turns within a round, so that
// what slows the machine down for a while slows them all.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"time"

	"fastpath/src/itest/engine"

	"golang.org/x/sys/unix"
)

const usage = `Usage: go run ./src/itest/bench

Measures the CPU cost of a forwarded packet, over veth on the running kernel, in
network namespaces of its own; and the rate of TCP that ends on the router. As
root, with two CPUs, clang-14, gcc, nft, ip, ethtool and qemu (make deps). Takes
about eight minutes, and instructions are counted in a VM then; Ctrl-C ends it in
order.

Writes bench/results.json and, drawn from it, bench/results.svg.

Environment:
  ROUNDS  how often what a target judges is measured (default 30; the rest a fifth
          as often). A target needs 5 to be judged.
`

const (
	childEnv = "FASTPATH_BENCH_CHILD"
	jsonFile = "bench/results.json"
	svgFile  = "bench/results.svg"
	duration = 350 * time.Millisecond // of one measurement
)

//go:embed c/devmap.c
var devmapC []byte

//go:embed c/l2fwd.c
var l2fwdC []byte

func main() {
	run := bench
	if os.Getenv(childEnv) != "" {
		run = func() error { return engine.Serve(os.Stdin, os.Stdout) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench() error {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse()
	rounds, err := roundsWanted(os.Getenv("ROUNDS"))
	if err != nil {
		return err
	}
	if os.Getuid() != 0 || runtime.NumCPU() < 2 {
		return errors.New("needs root (network namespaces, BPF) and two CPUs")
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	m, err := measure(ctx, rounds)
	if err != nil {
		return err
	}
	r := m.results()
	r.Rounds = rounds
	if r.CPU, r.Kernel, err = machine(); err != nil {
		return err
	}
	return report(r)
}

func roundsWanted(s string) (int, error) {
	if s == "" {
		return 30, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("ROUNDS=%s: want a number above 0", s)
	}
	return n, nil
}

// report writes the files, and the table to standard output.
func report(r Results) error {
	if err := r.write(jsonFile); err != nil {
		return err
	}
	drawn, err := readResults(jsonFile)
	if err != nil {
		return err
	}
	if err := replace(svgFile, draw(drawn)); err != nil {
		return err
	}
	if err := r.table(os.Stdout); err != nil {
		return err
	}
	fmt.Println("\nwritten to", jsonFile, "and", svgFile)
	return nil
}

// measure makes the beds, measures everything, and removes the beds.
func measure(ctx context.Context, rounds int) (m measurements, err error) {
	dir, err := os.MkdirTemp("", "fastpath-bench-")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	t, err := compile(dir)
	if err != nil {
		fmt.Println("left out:", err)
	}
	beds := map[variant]*bed{}
	defer func() {
		for _, b := range beds {
			err = errors.Join(err, b.close())
		}
	}()
	for i, v := range variants {
		if ctx.Err() != nil {
			return m, errors.New("interrupted")
		}
		fmt.Println("setting up", v)
		b, err := newBed(v, i, manyFlows, t)
		if err != nil {
			fmt.Println("left out:", err)
			continue
		}
		beds[v] = b
	}
	m = newMeasurements()
	for _, step := range []func(context.Context, map[variant]*bed, int) error{m.measureStreams, m.measureScenes} {
		if err := step(ctx, beds, rounds); err != nil {
			if ctx.Err() != nil {
				err = errors.New("interrupted")
			}
			return m, err
		}
	}
	if *m.counted, err = countInstructions(ctx, dir); ctx.Err() != nil {
		return m, errors.New("interrupted")
	} else if err != nil {
		fmt.Println("left out: instructions:", err)
	}
	return m, nil
}

// measureScenes shows a dot for a round.
func (m measurements) measureScenes(ctx context.Context, beds map[variant]*bed, rounds int) error {
	for i, s := range scenes {
		n := roundsOf(s, rounds)
		fmt.Printf("%d of %d, %s, %d rounds ", i+1, len(scenes), s, n)
		for round := range n {
			for _, v := range variants {
				if beds[v] == nil || !due(v, s, round, rounds) {
					continue
				}
				x, err := beds[v].try(ctx, s, duration)
				if err != nil {
					return err
				}
				x.Round = round
				m.add(s, v, x)
			}
			fmt.Print(".")
		}
		fmt.Println()
	}
	return nil
}

// measureStreams does the same for TCP.
func (m measurements) measureStreams(ctx context.Context, beds map[variant]*bed, rounds int) error {
	fmt.Printf("TCP to the router, %d rounds ", rounds)
	for range rounds {
		for _, st := range streams {
			if beds[st.bed] == nil {
				continue
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			x, err := st.receive(beds[st.bed], duration)
			if err != nil {
				return err
			}
			m.streams[st] = append(m.streams[st], x)
		}
		fmt.Print(".")
	}
	fmt.Println()
	return nil
}
