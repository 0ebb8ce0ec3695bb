// SPDX-License-Identifier: Apache-2.0

package plan

import (
	_ "embed" // the deny-list
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// denial is one entry of fraglist.deny; what its fields mean stands there.
type denial struct {
	when          string
	drivers       []string // nil: every driver
	first, last   version
	issue, reason string
}

// version is a kernel's, as far as it is written.
type version []int

//go:embed fraglist.deny
var denyText string

// denyList is the embedded list; a test holds that it can be read.
var denyList = sync.OnceValue(func() []denial {
	list, _ := readDenyList(denyText)
	return list
})

// The conditions of an entry.
const (
	denyAlways = "always"
	denyNAT64  = "nat64"
	denyNAT66  = "nat66"
)

func readDenyList(text string) (list []denial, err error) {
	line := 0
	for text := range strings.Lines(text) {
		line++
		field := strings.Fields(text)
		if len(field) == 0 || strings.HasPrefix(field[0], "#") {
			continue
		}
		if len(field) < 5 {
			return nil, fmt.Errorf("line %d: %d of 5 fields", line, len(field))
		}
		d := denial{when: field[0], issue: field[3], reason: strings.Join(field[4:], " ")}
		if !slices.Contains([]string{denyAlways, denyNAT64, denyNAT66}, d.when) {
			return nil, fmt.Errorf("line %d: unknown condition %q", line, d.when)
		}
		if field[1] != "*" {
			d.drivers = strings.Split(field[1], ",")
		}
		first, last, ranged := strings.Cut(field[2], "..")
		d.first, d.last = readVersion(first), readVersion(last)
		if !ranged || d.first == nil || d.last == nil {
			return nil, fmt.Errorf("line %d: %q is no range of kernels", line, field[2])
		}
		list = append(list, d)
	}
	return list, nil
}

// readVersion reads what a release begins with: 6.12.94 of 6.12.94-amd64. nil: no number.
func readVersion(release string) (v version) {
	for part := range strings.SplitSeq(release, ".") {
		digits := strings.IndexFunc(part, func(c rune) bool { return c < '0' || c > '9' })
		if digits < 0 {
			digits = len(part)
		}
		n, err := strconv.Atoi(part[:digits])
		if err != nil {
			return v
		}
		if v = append(v, n); digits < len(part) {
			return v
		}
	}
	return v
}

// covers: the entry is about this kernel and driver.
func (d denial) covers(kernel version, driver string) bool {
	// A bound that is written shorter than the kernel's version includes all that begins with it.
	last := kernel[:min(len(kernel), len(d.last))]
	return len(kernel) > 0 && (d.drivers == nil || slices.Contains(d.drivers, driver)) &&
		slices.Compare(d.first, kernel) <= 0 && slices.Compare(last, d.last) <= 0
}
