// SPDX-License-Identifier: Apache-2.0

// Bench is behind `make bench`: what a forwarded packet costs the router, for the
// kernel's forwarding and for the engines, over veth on the running kernel. It
// writes bench/results.json and prints a table. ROUNDS in the environment says
// how often everything is measured (default 9).
//
// Cost is the CPU time of the router's threads (NAPI threads of its two ports,
// and the forwarder) per packet that the sink has seen. Router, and generator
// with sink, have a CPU each. The variants take turns within a round, so that
// what slows the machine down for a while slows them all.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"time"

	"fastpath/src/itest/engine"

	"golang.org/x/sys/unix"
)

const (
	childEnv = "FASTPATH_BENCH_CHILD"
	output   = "bench/results.json"
	duration = time.Second // of one measurement
)

// load is how much the generator offers; pps 0: more than the router can take.
type load struct {
	name string
	pps  int
}

var loads = []load{{"saturated", 0}, {"300kpps", 300_000}}

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

func bench() (err error) {
	rounds := 9
	if s := os.Getenv("ROUNDS"); s != "" {
		if rounds, err = strconv.Atoi(s); err != nil || rounds < 1 {
			return fmt.Errorf("ROUNDS=%s: want a number above 0", s)
		}
	}
	if os.Getuid() != 0 || runtime.NumCPU() < 2 {
		return errors.New("needs root (network namespaces, BPF) and two CPUs")
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGINT, unix.SIGTERM)
	var beds []*bed
	defer func() {
		for _, b := range beds {
			err = errors.Join(err, b.close())
		}
	}()
	for i, v := range variants {
		fmt.Printf("setting up %s, encapsulation %s\n", v.name, v.encap)
		b, err := newBed(v, i)
		if err != nil {
			return err
		}
		beds = append(beds, b)
	}
	samples, err := measureAll(beds, rounds, stop)
	if err != nil {
		return err
	}
	return report(samples)
}

// measureAll returns the samples by load, by variant.
func measureAll(beds []*bed, rounds int, stop <-chan os.Signal) ([][][]sample, error) {
	samples := make([][][]sample, len(loads))
	for i := range samples {
		samples[i] = make([][]sample, len(beds))
	}
	for round := range rounds {
		for i, l := range loads {
			fmt.Printf("round %d of %d, %s:", round+1, rounds, l.name)
			for j, b := range beds {
				select {
				case <-stop:
					return nil, errors.New("interrupted")
				default:
				}
				s, err := b.measure(duration, l)
				if err != nil {
					return nil, err
				}
				samples[i][j] = append(samples[i][j], s)
				fmt.Printf("  %s %.0f ns", b.label(), s.cpu)
			}
			fmt.Println()
		}
	}
	return samples, nil
}

func (v variant) label() string {
	if v.encap == "none" {
		return v.name
	}
	return v.name + " " + v.encap
}

func report(samples [][][]sample) error {
	var r Results
	var err error
	if r.CPU, r.Kernel, err = machine(); err != nil {
		return err
	}
	reference := -1
	for i, v := range variants {
		if v.name == "kernel+nat" {
			reference = i
		}
	}
	for i, l := range loads {
		for j, v := range variants {
			r.Results = append(r.Results, summarize(
				Result{Variant: v.name, Encap: v.encap, Flows: flows, Size: size, Load: l.name}, samples[i][j], samples[i][reference]))
		}
	}
	r.table(os.Stdout)
	if err := r.write(output); err != nil {
		return err
	}
	fmt.Println("\nwritten to", output)
	return nil
}
