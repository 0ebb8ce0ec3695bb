// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"strconv"
)

// cpuTime is what one CPU spent, in clock ticks since the machine's start.
type cpuTime struct{ softirq, all uint64 }

// The fields of a cpu line of /proc/stat (Documentation/filesystems/proc.rst):
// user, nice, system, idle, iowait, irq, softirq, steal; what follows is part
// of user and nice already.
const (
	statSoftirq = 6
	statFields  = 8
)

// parseStat reads the lines cpu0, cpu1, … of /proc/stat, by their name.
func parseStat(text []byte) map[string]cpuTime {
	cpus := map[string]cpuTime{}
	for line := range bytes.Lines(text) {
		field := bytes.Fields(line)
		if len(field) <= statFields || len(field[0]) <= len("cpu") || !bytes.HasPrefix(field[0], []byte("cpu")) {
			continue
		}
		var c cpuTime
		for i, f := range field[1 : 1+statFields] {
			n, err := strconv.ParseUint(string(f), 10, 64)
			if err != nil {
				continue
			}
			c.all += n
			if i == statSoftirq {
				c.softirq = n
			}
		}
		cpus[string(field[0])] = c
	}
	return cpus
}

// AddStat takes /proc/stat as it is at a sample; Traffic.Softirq is what the
// busiest CPU did since the one before, Delta.Softirq what all did.
func (m *Meter) AddStat(text []byte) {
	cpus := parseStat(text)
	m.now.Softirq = busiest(m.cpus, cpus)
	for name, c := range cpus {
		if before, ok := m.cpus[name]; ok { // a CPU that came back may count from anywhere
			m.ticks += less(c.softirq, before.softirq)
		}
	}
	m.cpus = cpus
}

// busiest is the largest share of softirq among the CPUs, in percent; nil when
// no time passed. A CPU that came back may count from anywhere.
func busiest(before, now map[string]cpuTime) *float64 {
	var most *float64
	for name, c := range now {
		b, ok := before[name]
		if !ok || c.all <= b.all || c.softirq < b.softirq {
			continue
		}
		share := 100 * float64(c.softirq-b.softirq) / float64(c.all-b.all)
		if most == nil || share > *most {
			most = &share
		}
	}
	return most
}
