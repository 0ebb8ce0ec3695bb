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
	"time"

	"fastpath/src/itest/icount"
	"fastpath/src/itest/topo"
)

// Of so many windows with so many packets each the median counts: what a busy
// machine outside delays makes the VM's own timers weigh more.
const (
	windows = 7
	counted = 6400
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Println("guest:", err)
		os.Exit(1)
	}
}

func run(hostMAC, providerMAC, flows string, paths []string) error {
	n, err := strconv.Atoi(flows)
	if err != nil {
		return err
	}
	s, err := startSoaker()
	if err != nil {
		return err
	}
	if err := setUp(hostMAC, providerMAC); err != nil {
		return err
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	say := json.NewEncoder(os.Stdout).Encode
	if err := say(icount.Counted{Kernel: strings.TrimSpace(string(release))}); err != nil {
		return err
	}
	for _, name := range paths {
		p, err := icount.PathOf(name)
		if err != nil {
			return err
		}
		cost, err := measure(s, p, n)
		said := icount.Counted{Costs: []icount.Cost{cost}}
		var why absent
		if errors.As(err, &why) {
			said, err = icount.Counted{Absent: []icount.Absent{{Path: name, Flows: n, Why: why.reason}}}, nil
		}
		if err := errors.Join(err, say(said)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
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

// measure brings the flows onto the path and counts.
func measure(s *soaker, p icount.Path, flows int) (c icount.Cost, err error) {
	if err := os.WriteFile("/proc/sys/net/core/gro_normal_batch", []byte(strconv.Itoa(p.Lists)), 0); err != nil {
		return c, err
	}
	if p.Engine != "" {
		stop, err := start(p, flows)
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
		all = append(all, s.window())
	}
	slices.SortFunc(all, func(a, b icount.Cost) int { return cmp.Compare(a.Instructions, b.Instructions) })
	c = all[windows/2]
	c.Path, c.Flows = p.Name, flows
	if fast := p.Engine != ""; fast && c.Slow > most || !fast && c.Slow < 1-most {
		return c, fmt.Errorf("%.1f %% of the packets took the slow path", 100*c.Slow)
	}
	return c, nil
}

// most is the share of packets that may go another way than the path's.
const most = 0.01

// window counts once.
func (s *soaker) window() icount.Cost {
	from, start := look(), s.now()
	for look().packets < from.packets+counted {
		pause()
	}
	to, end := look(), s.now()
	n := to.packets - from.packets
	return icount.Cost{Instructions: s.busy(start, end) / float64(n), Packets: n,
		Interrupts: to.interrupts - from.interrupts, Slow: float64(to.slow-from.slow) / float64(n)}
}

// reading is the state of the VM at some time.
type reading struct {
	packets, interrupts int64
	slow                int64 // packets that the kernel forwarded by the slow path: flowtables and engines don't count here
}

func look() (r reading) {
	r.packets = number("/sys/class/net/lan1/statistics/rx_packets") + number("/sys/class/net/wan/statistics/rx_packets")
	r.slow = forwarded()
	text, _ := os.ReadFile("/proc/interrupts")
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 2 && strings.Contains(line, "-input.") {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			r.interrupts += n
		}
	}
	return r
}

// forwarded is the kernel's counter of IPv4 packets forwarded (RFC 4293
// ipSystemStatsOutForwDatagrams).
func forwarded() int64 {
	text, _ := os.ReadFile("/proc/net/snmp")
	var names []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != "Ip:" {
			continue
		}
		if i := slices.Index(names, "ForwDatagrams"); i >= 0 {
			n, _ := strconv.ParseInt(f[i], 10, 64)
			return n
		}
		names = f
	}
	return 0
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
