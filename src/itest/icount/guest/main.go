// SPDX-License-Identifier: Apache-2.0

// Command guest is the router of package icount: in the VM it measures the paths
// that it is given and prints each one's cost as a line of JSON.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fastpath/src/itest/icount"
	"fastpath/src/itest/topo"
	"fastpath/src/state"
)

// Of so many windows with so many packets each the median counts: what a busy
// machine outside delays makes the VM's own timers weigh more.
const (
	windows = 7
	counted = 6400
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Println("guest:", err)
		os.Exit(1)
	}
}

func run(hostMAC, providerMAC string, paths []string) error {
	s, err := startSoaker()
	if err != nil {
		return err
	}
	if err := setUp(hostMAC, providerMAC); err != nil {
		return err
	}
	for _, path := range paths {
		e, ok := icount.EngineOf(path)
		if !ok {
			return fmt.Errorf("no path %q", path)
		}
		cost, err := measure(s, path, e)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(cost); err != nil {
			return err
		}
	}
	return nil
}

// setUp makes the router: topo.Plain without namespaces. Its neighbours are
// outside of the VM and answer no ARP.
func setUp(hostMAC, providerMAC string) error {
	rules, err := topo.Plain.Ruleset()
	if err != nil {
		return err
	}
	return errors.Join(sh(`
		ip link set eth0 name lan1
		ip link set eth1 name wan
		ip addr add `+topo.RouterLANv4+`/24 dev lan1
		ip addr add `+topo.RouterWANv4+`/24 dev wan
		ip link set lan1 up
		ip link set wan up
		ip neigh replace `+topo.Host1v4+` lladdr `+hostMAC+` dev lan1 nud permanent
		ip neigh replace `+topo.ProviderWANv4+` lladdr `+providerMAC+` dev wan nud permanent
		ip route add default via `+topo.ProviderWANv4+`
		echo 1 > /proc/sys/net/ipv4/ip_forward`),
		sh("nft -f - <<'END'\n"+rules+"END\n"))
}

func sh(script string) error {
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// measure brings the flow onto the path and counts.
func measure(s *soaker, path string, e topo.Engine) (c icount.Cost, err error) {
	if e.Kind != "" {
		stop, err := start(e)
		if err != nil {
			return c, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if err := wait("packets", func() bool { return look().packets > 0 }); err != nil {
		return c, err
	}
	time.Sleep(3 * time.Second) // what was made for the first packets is over
	s.begin()
	defer s.end()
	var all []icount.Cost
	for range windows {
		all = append(all, s.window(path))
	}
	if e.Kind != "" && !carried(e.Kind) {
		return c, errors.New("the engine doesn't have the flow any more")
	}
	slices.SortFunc(all, func(a, b icount.Cost) int { return cmp.Compare(a.Instructions, b.Instructions) })
	return all[windows/2], nil
}

// window counts once.
func (s *soaker) window(path string) icount.Cost {
	from, start := look(), s.now()
	for look().packets < from.packets+counted {
		pause()
	}
	to, end := look(), s.now()
	n := to.packets - from.packets
	return icount.Cost{Path: path, Instructions: s.busy(start, end) / float64(n), Packets: n,
		Interrupts: to.interrupts - from.interrupts}
}

// start runs the daemon until the engine has the flow.
func start(e topo.Engine) (stop func() error, err error) {
	if err := topo.Plain.WriteConfig("/etc/config", e); err != nil {
		return nil, err
	}
	cmd := exec.Command("fastpath", "run")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	}
	if err := wait("the engine", func() bool { return carried(e.Kind) }); err != nil {
		out, _ := exec.Command("fastpath", "status").CombinedOutput()
		return nil, errors.Join(fmt.Errorf("%w; status: %s", err, out), stop())
	}
	return stop, nil
}

// carried says whether an engine of that kind has the one flow.
func carried(kind string) bool {
	out, err := exec.Command("fastpath", "flows", "--json").Output()
	var list struct{ Flows []state.Flow }
	return err == nil && json.Unmarshal(out, &list) == nil && len(list.Flows) == 1 && list.Flows[0].Engine == kind
}

func wait(what string, ok func() bool) error {
	for range 600 {
		if ok() {
			return nil
		}
		time.Sleep(time.Second)
	}
	return fmt.Errorf("not within ten minutes: %s", what)
}

// reading is the state of the VM at some time.
type reading struct {
	packets, interrupts int64
}

func look() (r reading) {
	r.packets = number("/sys/class/net/lan1/statistics/rx_packets") + number("/sys/class/net/wan/statistics/rx_packets")
	text, _ := os.ReadFile("/proc/interrupts")
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 2 && strings.Contains(line, "-input.") {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			r.interrupts += n
		}
	}
	return r
}

// pause is the time between two looks at the counters.
func pause() { time.Sleep(20 * time.Millisecond) }

func number(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}
